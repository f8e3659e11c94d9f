"""What a snapshot of a folder would hold, found without reading a file: for a look before anything is sent."""

from __future__ import annotations

import os
import stat
from dataclasses import field
from heapq import nlargest
from pathlib import Path
from typing import List, Optional, Tuple

from runyard.core.formats.tree import FileEntry, entry_bytes, name_text
from runyard.core.lazy_dataclass import dataclass
from runyard.snapshots.folder import Folder, Kept
from runyard.snapshots.notices import note_lines, warning_lines
from runyard.snapshots.rules import read_rules
from runyard.snapshots.take import identity, open_source
from runyard.snapshots.walk import Walk

BIGGEST = 5


@dataclass(frozen=True)
class Survey:
    files: int
    size_bytes: int
    biggest: List[Tuple[str, int]] = field(default_factory=list)  # path and size, the biggest first
    notes: List[str] = field(default_factory=list)  # what would be left out, and what is doubtful


def survey(source: str | os.PathLike[str], *, home: Path) -> Survey:
    """Return what `take_snapshot` would store.

    Raises:
        SnapshotRejected: as `take_snapshot` would.
    """
    root_fd = open_source(os.path.realpath(source))
    try:
        rules, notes = read_rules(root_fd)
        walk = _Look(rules, _nothing, home=identity(home))
        root = walk.run(root_fd, None)
    finally:
        os.close(root_fd)
    found = notes + note_lines(walk.notes, rules.file) + warning_lines(walk.notes)
    return Survey(walk.files, walk.size_bytes, _biggest(root), found)


class _Look(Walk):
    """The same walk; a file's size stands for its content."""

    def _content(self, file: int, path: str, name: str, before: Optional[Kept]) -> Kept:
        status = os.fstat(file)
        entry = FileEntry(name_text(os.fsencode(name)), stat.S_IMODE(status.st_mode) & 0o777, status.st_size, ())
        return Kept(None, entry_bytes(entry), status.st_size)


def _nothing(_chunk: str, _data: bytes) -> None:
    raise AssertionError("a look at a folder reads no file")


def _biggest(root: Folder) -> List[Tuple[str, int]]:
    sizes = (
        (kept.size, f"{path}/{name}" if path else name)
        for path, folder in root.iter_below()
        for name, kept in folder.files.items()
        if kept.size
    )
    return [(name, size) for size, name in nlargest(BIGGEST, sizes)]
