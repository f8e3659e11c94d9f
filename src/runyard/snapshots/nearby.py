"""Fill a work folder from the source folder itself, where that lies on this machine and has not changed since.

Nothing travels then, and nothing is hashed again: a file counts as the snapshot's when its stat is the one that the
walk noted, before and after the copy, and no process has it open for writing. The walk trusts the same signs. Where
the file system can, a file is cloned (a reflink: both share their blocks until one is written to); else the kernel
copies it. Hard links are no way: a script that writes into its work folder would write into the user's source.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Deque, List, NamedTuple, Optional, Tuple

from runyard.core.formats.chunks import has_writer
from runyard.core.formats.tree import FileEntry, FolderEntry, entry_bytes, name_bytes
from runyard.core.machine.portable import NOCTTY, NOFOLLOW, NONBLOCK, READ
from runyard.snapshots.cache import SourceCache, find_cache_of
from runyard.snapshots.folder import Folder, KeptEntry, stamp_of
from runyard.snapshots.plan import CREATE, OPEN_FOLDER, ZEROS, PlannedFolder

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

FICLONE = 0x40049409  # the ioctl of Linux that clones a whole file
_OPEN_FILE = READ | NOFOLLOW | NONBLOCK | NOCTTY
_CANNOT = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.EBADF)
_PIECE = 8 << 20
_THREADS = 4
_MOST_OPEN = 32  # folders at a time; each has two descriptors

Tell = Callable[[int], None]  # bytes that are there


class Nearby(NamedTuple):
    """A source folder on this machine, and what the last snapshot of it found."""

    path: str
    root: Folder


def find_nearby(home: Path, root: str) -> Optional[Nearby]:
    """Return the source folder of the snapshot whose root tree is `root`, None when it was taken elsewhere."""
    path = find_cache_of(home, root)
    if path is None:
        return None
    cache = SourceCache(path, None)
    return Nearby(cache.source, cache.root) if cache.root is not None else None


def copy_nearby(
    near: Nearby, folder: PlannedFolder, target_fd: int, *, is_known: bool, umask: int, tell: Tell
) -> PlannedFolder:
    """Make all folders below `target_fd`, and the files that lie unchanged in the source; return what is left to fetch.

    `is_known`: the last snapshot of the source is this very one.

    Raises:
        OSError: the disk refused.
    """
    try:
        source_fd = os.open(near.path, OPEN_FOLDER)
    except OSError:
        source_fd = -1
    # Copies are the kernel's work, so threads help. It locks names by folder: a thread has its own folders.
    from concurrent.futures import ThreadPoolExecutor  # only snapshots that did not come along with their job get here

    try:
        with ThreadPoolExecutor(_THREADS, "restore") as pool:
            copier = _Copier(umask, tell, pool, is_known=is_known)
            left = copier.fill(target_fd, folder, source_fd, near.root)
            copier.wait()
        return left
    finally:
        if source_fd >= 0:
            os.close(source_fd)


class _Copier:
    """Walks the folders in one thread, and has the files of each copied by another.

    Clones are made in the first thread itself: they are so short that threads only wait for each other.
    """

    def __init__(self, umask: int, tell: Tell, pool: ThreadPoolExecutor, *, is_known: bool) -> None:
        self._is_known = is_known
        self._umask = umask
        self._tell = tell
        self._pool = pool
        self._jobs: Deque[Future[None]] = deque()
        self._copy: Callable[[int, int, int], int] = self._clone  # until the file systems turn out to have no reflinks

    def fill(self, fd: int, folder: PlannedFolder, source_fd: int, known: Optional[Folder]) -> PlannedFolder:
        """Fill one folder and those below it; `source_fd` -1 or `known` None: there is nothing to copy from."""
        files = folder.files
        if source_fd >= 0 and known is not None and files:
            files = self._begin(fd, folder.files, source_fd, known)
        folders: List[Tuple[FolderEntry, PlannedFolder]] = []
        for place, below in folder.folders:
            folders.append((place, self._below(fd, place, below, source_fd, known)))
        return folder._replace(files=files, folders=folders)

    def wait(self, most: int = 0) -> None:
        """Return when at most so many folders are being filled. Raises what went wrong in one."""
        while len(self._jobs) > most:
            self._jobs.popleft().result()

    def _begin(self, fd: int, files: List[FileEntry], source_fd: int, known: Folder) -> List[FileEntry]:
        """Have the files of one folder copied; return a list that holds those that could not be, once that is done."""
        if self._copy == self._clone:
            return [entry for entry in files if not self._file(fd, entry, source_fd, known)]
        self.wait(_MOST_OPEN)
        left: List[FileEntry] = []
        fds = os.dup(fd), os.dup(source_fd)

        def copy() -> None:
            try:
                left.extend(entry for entry in files if not self._file(fds[0], entry, fds[1], known))
            finally:
                for each in fds:
                    os.close(each)

        self._jobs.append(self._pool.submit(copy))
        return left

    def _below(
        self, fd: int, place: FolderEntry, below: PlannedFolder, source_fd: int, known: Optional[Folder]
    ) -> PlannedFolder:
        name = name_bytes(place.name)
        os.mkdir(name, 0o700, dir_fd=fd)
        child = os.open(name, OPEN_FOLDER, dir_fd=fd)
        source = -1
        try:
            deeper = known.folders.get(os.fsdecode(name)) if known is not None else None
            if deeper is not None and source_fd >= 0:
                try:
                    source = os.open(name, OPEN_FOLDER, dir_fd=source_fd)
                except OSError:
                    deeper = None  # it changed: all of it is fetched
            return self.fill(child, below, source, deeper)
        finally:
            os.close(child)
            if source >= 0:
                os.close(source)

    def _file(self, fd: int, entry: FileEntry, source_fd: int, known: Folder) -> bool:
        """Copy one file; False when it is not known to be the same, or has holes that a copy would fill."""
        name = name_bytes(entry.name)
        kept = known.files.get(os.fsdecode(name))
        if kept is None or kept.stamp is None or ZEROS in entry.chunks:
            return False
        if not self._is_known and kept.piece != entry_bytes(entry):
            return False
        try:
            source = os.open(name, _OPEN_FILE, dir_fd=source_fd)
        except OSError:
            return False
        try:
            if not _is_unchanged(source, kept) or has_writer(source):
                return False
            target = os.open(name, CREATE, entry.mode, dir_fd=fd)
            try:
                is_whole = not entry.size or self._copy(source, target, entry.size) == entry.size
                if entry.mode & self._umask:
                    os.fchmod(target, entry.mode)
            finally:
                os.close(target)
            if not is_whole or not _is_unchanged(source, kept):
                os.unlink(name, dir_fd=fd)
                return False
        finally:
            os.close(source)
        self._tell(entry.size)
        return True

    def _clone(self, source: int, target: int, size: int) -> int:
        import fcntl  # clients load this package too, and Windows has no such module

        try:
            fcntl.ioctl(target, FICLONE, source)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._copy = self._copy_in_kernel
            return self._copy(source, target, size)
        return os.fstat(target).st_size

    def _copy_in_kernel(self, source: int, target: int, size: int) -> int:
        done = 0
        try:
            while done < size:
                moved = os.copy_file_range(source, target, size - done)
                if not moved:
                    break
                done += moved
        except OSError as error:
            if done or error.errno not in _CANNOT:
                raise
            self._copy = _copy_by_hand
            return _copy_by_hand(source, target, size)
        return done


def _copy_by_hand(source: int, target: int, size: int) -> int:
    done = 0
    while done < size:
        data = os.pread(source, min(_PIECE, size - done), done)
        if not data:
            break
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
        done += len(data)
    return done


def _is_unchanged(fd: int, kept: KeptEntry) -> bool:
    return stamp_of(os.fstat(fd)) == kept.stamp
