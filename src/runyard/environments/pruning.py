"""List the environments that are built on this machine, and remove them by name, by size or by last use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import List, Optional

from runyard.core.errors import Conflict, NotFound
from runyard.core.lazy_dataclass import dataclass
from runyard.environments.cache import MARKER, CacheEntry, Marker, clear_leftovers, list_places


@dataclass(frozen=True)
class BuiltFolder:
    """One environment on this machine. `size_bytes` counts files that it shares with others, too."""

    key: str
    path: str
    name: str  # of the environment that was built first; another with the same content shares it
    kind: str
    python: str
    requirements: List[str]
    built_at: float
    used_at: float
    size_bytes: int
    runs: List[str]  # ids of the unfinished runs that use it
    is_finished: bool  # false: what a killed build left, or one that goes on now


def list_built(root: Path) -> List[BuiltFolder]:
    """Return the environments below `root` (`core.config.paths.environments_folder`), last used first."""
    return sorted((_look_at(place) for place in list_places(root)), key=lambda one: -one.used_at)


def remove(root: Path, key: str) -> BuiltFolder:
    """Remove one; `key` may be its beginning.

    Raises:
        NotFound: there is none, or several begin so.
        Conflict: a run uses it, or it is being built.
    """
    places = [place for place in list_places(root) if key and place.key.startswith(key)]
    if len(places) != 1:
        what = "There is no environment" if not places else f"{len(places)} environments have a key that begins with"
        raise NotFound(f"{what} `{key}` on this machine.", hint="`runyard environments list` shows the keys.")
    found = _look_at(places[0])
    if not _try_to_remove(places[0]):
        users = f"Used by: {', '.join(found.runs)}." if found.runs else "It is being built now."
        raise Conflict(
            f"The environment `{found.key}` cannot be removed now.",
            why=users,
            hint="Try again when these runs have ended; `runyard runs cancel <id>` ends one.",
        )
    return found


def prune(
    root: Path,
    *,
    keep_bytes: Optional[int] = None,
    unused_s: Optional[float] = None,
    now: Optional[float] = None,
    dry_run: bool = False,
) -> List[BuiltFolder]:
    """Remove environments that nobody uses, and return them: those last used before `unused_s` seconds, then the
    longest unused ones until at most `keep_bytes` are left. What killed builds left goes in any case.

    None is removed that an unfinished run uses, or that is being built. With `dry_run` nothing is.
    """
    removed: List[BuiltFolder] = []
    kept = list_built(root)
    at = time.time() if now is None else now
    for one in sorted(kept, key=lambda one: one.used_at):
        is_old = unused_s is not None and at - one.used_at >= unused_s
        is_too_much = keep_bytes is not None and sum(other.size_bytes for other in kept) > keep_bytes
        if one.is_finished and not is_old and not is_too_much:
            continue
        if _can_go(CacheEntry(Path(one.path)), dry_run=dry_run):
            kept.remove(one)
            removed.append(one)
    if not dry_run:
        clear_leftovers(root)
    return removed


def _look_at(place: CacheEntry) -> BuiltFolder:
    marker = place.read_marker()
    known = marker or Marker()
    return BuiltFolder(
        key=place.key,
        path=str(place.folder),
        name=str(known.get("name", "")),
        kind=str(known.get("kind", "")),
        python=str(known.get("python", "")),
        requirements=[str(line) for line in known.get("requirements", ())],
        built_at=float(known.get("built_at", 0.0)),
        used_at=_used_at(place),
        size_bytes=_size(place, is_finished=marker is not None),
        runs=[os.path.basename(os.path.dirname(user)) for user in place.list_users()],
        is_finished=marker is not None,
    )


def _used_at(place: CacheEntry) -> float:
    for path in (place.folder / MARKER, place.folder):
        try:
            return path.stat().st_mtime
        except OSError:
            continue
    return 0.0


def _size(place: CacheEntry, *, is_finished: bool) -> int:
    """Return the bytes on disk; counted once, when the environment is finished."""
    known = place.read("size.json") if is_finished else None
    if known is not None:
        return int(known.get("bytes", 0))
    seen = {(found.st_dev, found.st_ino): found.st_blocks * 512 for found in _iter_stats(place.prefix)}
    total = sum(seen.values())
    if is_finished:
        try:
            place.write("size.json", {"bytes": total})
        except OSError:
            pass
    return total


def _iter_stats(folder: Path) -> List[os.stat_result]:
    found = []
    for top, _, names in os.walk(folder):
        for name in names:
            try:
                found.append(os.lstat(os.path.join(top, name)))
            except OSError:
                continue
    return found


def _can_go(place: CacheEntry, *, dry_run: bool) -> bool:
    return not _is_busy(place) if dry_run else _try_to_remove(place)


def _is_busy(place: CacheEntry) -> bool:
    fd = place.try_lock()
    if fd is None:
        return True
    os.close(fd)
    return bool(place.list_users())


def _try_to_remove(place: CacheEntry) -> bool:
    """Remove it unless it is being built or used; a run that takes it into use meanwhile waits and builds it again."""
    fd = place.try_lock()
    if fd is None:
        return False
    try:
        if place.list_users():
            return False
        place.erase()
        return True
    finally:
        os.close(fd)
