"""A run's work folder becomes the next run's, so that a snapshot of 20,000 files is not made anew for each run.

When a run has ended, all that its snapshot did not bring is removed from its work folder, and the folder waits below
the home (`core.machine.spare_work`) for a run of the same snapshot. Each file must be the very one that was restored:
inode, size, mode and times are compared when the run ends and again when the folder is taken, since no process changes
a file without a new ctime. Where anything differs the folder is dropped.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from pathlib import Path
from typing import Container, Dict, List, NamedTuple, Optional

from runyard.core.config.paths import spare_work_folder
from runyard.core.machine.facts import boot_id
from runyard.core.machine.spare_work import MOST, drop_spares, list_spares
from runyard.snapshots.restore import process_umask
from runyard.supervisor.run_folder import SPARE_NOTE, RunFolder, remove_tree

logger = logging.getLogger(__name__)

LEAST_FILES = 500  # fewer are restored in a moment
_SHARE_OF_FREE = 5  # a spare is at most this part of the free space
_TICK_S = 0.01
_WORK = "work"  # the work folder within a spare, beside the note


class FoundTree(NamedTuple):
    """Every entry of a folder with its stamp, what was not expected in it, and its size."""

    stamps: Dict[str, str]
    extra: List[str]
    size_bytes: int


def note_restored(folder: RunFolder, root: str, work: str) -> None:
    """Note what the snapshot brought, if it is worth a spare. A disk that refuses only means that there is none."""
    try:
        found = _look_through(work)
        if len(found.stamps) >= LEAST_FILES:
            time.sleep(_TICK_S)  # else a change could come within the same tick of the file system's clock
            _write_note(folder, root, found)
    except OSError as error:
        logger.info("the work folder will not be left to another run: %s", error)


def take_spare(folder: RunFolder, home: str, root: str, work: str) -> bool:
    """Rename a spare of this snapshot to `work`, which is missing or empty; False when there is none."""
    mine = f"{work}.spare"  # below the run folder: it goes with the run if this process is killed
    remove_tree(mine)
    for path in list_spares(spare_work_folder(Path(home)), _prefix(root)):
        try:
            os.rename(path, mine)
        except OSError:
            continue  # another run took it
        found = _take_whole(mine, work)
        remove_tree(mine)
        if found is not None:
            try:
                _write_note(folder, root, found)
            except OSError as error:
                logger.info("the work folder will not be left to another run: %s", error)
            return True
    return False


def _take_whole(spare: str, work: str) -> Optional[FoundTree]:
    """Rename the work folder within a spare to `work`; None when something in it has changed."""
    note = RunFolder(spare).read_object(SPARE_NOTE)
    try:
        found = _look_through(os.path.join(spare, _WORK))
        if note.get("boot_id") != boot_id() or note.get("digest") != _digest(found.stamps):
            return None
        os.rename(os.path.join(spare, _WORK), work)
    except OSError:
        return None
    return found


def leave_spare(folder: RunFolder, home: str, work: str) -> None:
    """Put the work folder of an ended run aside for the next one, if nothing that the snapshot brought has changed.

    Called once no process of the run is left and its end is stored.

    Raises:
        OSError: it could not be; the run folder, with what is left of the work folder, is removed as always.
    """
    note = folder.read_object(SPARE_NOTE)
    names = frozenset(note.get("names", ()))
    if not names:
        return
    found = _look_through(work, expected=names)
    if _digest(found.stamps) != note.get("digest") or not _has_room(home, found.size_bytes):
        return
    for path in found.extra:
        remove_tree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    spare = RunFolder(folder.at("spare"))
    os.mkdir(spare.path, 0o700)
    spare.write(SPARE_NOTE, {"digest": note["digest"], "boot_id": boot_id()})
    os.rename(work, spare.at(_WORK))
    spares = spare_work_folder(Path(home))
    spares.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.rename(spare.path, spares / f"{_prefix(note['root'])}{os.urandom(4).hex()}")
    drop_spares(spares, but=MOST)


def _write_note(folder: RunFolder, root: str, found: FoundTree) -> None:
    folder.write(SPARE_NOTE, {"root": root, "digest": _digest(found.stamps), "names": list(found.stamps)})


def _prefix(root: str) -> str:
    """The umask decides on the modes of files."""
    return f"{root}.{process_umask():o}."


def _has_room(home: str, size_bytes: int) -> bool:
    status = os.statvfs(home)
    return size_bytes * _SHARE_OF_FREE <= status.f_bavail * status.f_frsize


def _look_through(top: str, expected: Optional[Container[str]] = None) -> FoundTree:
    """Look at everything in a folder; what is not `expected` is listed and not entered. Raises OSError."""
    stamps = {"": f"d{os.lstat(top).st_mode:o}"}
    extra: List[str] = []
    size = 0
    waiting = [("", top)]
    while waiting:
        prefix, path = waiting.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                name = prefix + entry.name
                if expected is not None and name not in expected:
                    extra.append(entry.path)
                    continue
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):  # its times change with what is made and removed in it
                    stamps[name] = f"d{found.st_mode:o}"
                    waiting.append((f"{name}/", entry.path))
                else:
                    size += found.st_size
                    stamps[name] = (
                        f"{found.st_ino} {found.st_size} {found.st_mode:o} {found.st_mtime_ns} {found.st_ctime_ns}"
                    )
    return FoundTree(stamps, extra, size)


def _digest(stamps: Dict[str, str]) -> str:
    text = "\0".join(f"{name}\0{stamps[name]}" for name in sorted(stamps))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
