"""What ignore rules and Python environments kept out of a snapshot: how much it is, and a short form for the run.

Sizes are counted up to a limit for all folders together, and kept in the source folder's cache.
"""

from __future__ import annotations

import json
import os
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence

from runyard.snapshots.cache import LeftOutSize
from runyard.snapshots.gitignore import parse_line
from runyard.snapshots.rules import Rule
from runyard.snapshots.walk import IgnoredEntries

MOST_RULES = 20
MOST_PATHS = 8
_MOST_ENTRIES = 5_000  # of left-out folders, looked at in one snapshot
_MOST_TEXT = 200


class LeftOutRule(NamedTuple):
    """A line of an ignore file and what it kept out. `is_all` False: that much at least."""

    file: str  # path of the ignore file below the source folder
    line: int
    text: str
    paths: List[str]  # the first ones; a folder ends with `/`
    files: int
    size_bytes: int
    is_all: bool

    def covers(self, path: str) -> Optional[str]:
        """Return the part of a path (below the source folder) that the line keeps out; None when it keeps it."""
        for shown in self.paths:
            if path == shown or (shown.endswith("/") and f"{path}/".startswith(shown)):
                return shown
        line = parse_line(self.text, self.line)
        base = self.file.rpartition("/")[0]
        if line is None or line.keeps or (base and not path.startswith(f"{base}/")):
            return None
        parts = path[len(base) + 1 if base else 0 :].split("/")
        for count, name in enumerate(parts, start=1):
            below = "/".join(parts[:count])
            part = f"{base}/{below}" if base else below
            if count == len(parts) and line.fits(below, name, is_folder=False):
                return part
            if line.fits(below, name, is_folder=True):  # of the last part nobody knows what it was
                return f"{part}/"
        return None


class FolderSizes:
    """Counts what lies in folders of the source, within one limit for all of them."""

    def __init__(self, source: str, known: Dict[str, LeftOutSize]) -> None:
        self._source = source
        self._known = known  # from earlier snapshots
        self._left = _MOST_ENTRIES
        self.found: Dict[str, LeftOutSize] = {}

    def get(self, path: str) -> LeftOutSize:
        """Return the size of a folder; the one that was counted before when the folder itself has not changed."""
        size = self.found.get(path)
        if size is None:
            size = self.found[path] = self._count(path)
        return size

    def _count(self, path: str) -> LeftOutSize:
        try:
            mtime_ns = os.stat(os.path.join(self._source, path), follow_symlinks=False).st_mtime_ns
        except OSError:
            return LeftOutSize(0, 0, 0, True)
        known = self._known.get(path)
        if known is not None and known.mtime_ns == mtime_ns:
            return known
        files = size_bytes = 0
        waiting = [os.path.join(self._source, path)]
        while waiting and self._left > 0:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        self._left -= 1
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                            continue
                        files += 1
                        size_bytes += entry.stat(follow_symlinks=False).st_size
            except OSError:  # it vanished, or is closed to us: then it counts as nothing
                continue
        return LeftOutSize(mtime_ns, files, size_bytes, not waiting)


def summarize(left_out: Mapping[Rule, IgnoredEntries], sizes: FolderSizes) -> List[LeftOutRule]:
    """Return the lines that kept most out, with what they kept out."""
    found = []
    for rule, about in left_out.items():
        below = [sizes.get(path) for path in about.folders]
        paths = [*(f"{path}/" for path in sorted(about.folders)), *sorted(about.names)]
        found.append(
            LeftOutRule(
                rule.file,
                rule.line,
                rule.text[:_MOST_TEXT],
                paths[:MOST_PATHS],
                about.files + sum(size.files for size in below),
                about.size_bytes + sum(size.size_bytes for size in below),
                about.is_all and all(size.is_all for size in below),
            )
        )
    found.sort(key=lambda one: (-one.size_bytes, -one.files, one.file, one.line))
    return found[:MOST_RULES]


def to_text(rules: Sequence[LeftOutRule]) -> str:
    """Return the rules as the text of a run's property."""
    return json.dumps([list(rule) for rule in rules], separators=(",", ":")) if rules else ""


def from_text(text: str) -> List[LeftOutRule]:
    """Return what `to_text` was given; nothing for a text that it did not make."""
    try:
        return [_checked(row) for row in json.loads(text)] if text else []
    except (TypeError, ValueError):
        return []


def _checked(row: Iterable[object]) -> LeftOutRule:
    file, line, text, paths, files, size_bytes, is_all = row
    if not isinstance(paths, list):
        raise TypeError("paths are a list")
    number, count, size = (int(str(value)) for value in (line, files, size_bytes))
    return LeftOutRule(str(file), number, str(text), [str(path) for path in paths], count, size, bool(is_all))
