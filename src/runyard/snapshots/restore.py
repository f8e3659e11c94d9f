"""Restore a snapshot as a folder, byte for byte, with modes, links and empty folders.

The plan is computed and checked before anything is written, because the trees are untrusted. The folder is made beside
its final place and renamed when it is complete. Nothing is ever opened through a link: each file is created new
(O_EXCL) relative to the descriptor of the folder just made, and links come last. Files that lie unchanged in the source
folder on this machine are copied from there (`nearby`); all others are fetched.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Callable, List, Optional

from runyard.core.errors import Conflict, ProtocolError, RunyardError, StoreUnavailable
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.formats.tree import FileEntry, name_bytes
from runyard.snapshots.fetch import Fetcher, Source
from runyard.snapshots.plan import CREATE, OPEN_FOLDER, ZEROS, PlannedFolder, iter_chunks, plan_restore, size_of

if TYPE_CHECKING:
    from runyard.snapshots.nearby import Nearby

Tell = Callable[[int, int], None]  # bytes that are there, and of how many


def restore(
    root: str,
    content: Source,
    folder: str | os.PathLike[str],
    *,
    near: Optional[Nearby] = None,
    tell: Optional[Tell] = None,
) -> None:
    """Make `folder` hold the snapshot whose root tree is `root`. It must not exist yet, or be empty.

    Args:
        near: where its source lies on this machine; None: everything is fetched.
        tell: called after each file and chunk with how far it is.

    Raises:
        Conflict: the folder holds something.
        ProtocolError: the server sent what is not that snapshot.
        StoreUnavailable: the disk refused. Nothing is left behind in any case.
    """
    target = os.path.abspath(folder)
    _check_free(target)
    is_known = near is not None and near.root.tree == root
    trees = {each.tree: each.seal() for _, each in near.root.iter_below()} if near and is_known else content.tree(root)
    planned = plan_restore(root, trees)
    try:
        _publish(target, planned, content, near, _Count(size_of(planned), tell), is_known=is_known)
    except RunyardError:
        raise  # the server's; some are an OSError too
    except OSError as error:
        raise _refused(target, error) from error


class _Count:
    """Counts the bytes that are there."""

    def __init__(self, total: int, tell: Optional[Tell]) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._total = total
        self._tell = tell

    def add(self, size: int) -> None:
        """Count some more. Any thread may call this."""
        with self._lock:
            self._done += size
            if self._tell is not None:
                self._tell(self._done, self._total)


def _publish(
    target: str, planned: PlannedFolder, content: Source, near: Optional[Nearby], count: _Count, *, is_known: bool
) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    beside = f"{target}.part-{os.urandom(4).hex()}"
    os.mkdir(beside, 0o777)
    try:
        if os.path.isdir(target):  # an empty folder that the user made: its permissions are kept
            os.chmod(beside, os.stat(target).st_mode & 0o7777)
        _fill(beside, planned, content, near, count, is_known=is_known)
        os.rename(beside, target)
    except BaseException:
        _remove(beside)
        raise


def _check_free(target: str) -> None:
    try:
        names = os.listdir(target)
    except OSError:
        if not os.path.lexists(target):
            return
        names = ["."]
    if names:
        raise Conflict(
            f"The snapshot cannot be restored into `{target}`.",
            why=f"It holds something already (`{names[0]}`), or is no folder.",
            hint="Name a folder that does not exist yet.",
        )


def _fill(
    path: str, planned: PlannedFolder, content: Source, near: Optional[Nearby], count: _Count, *, is_known: bool
) -> None:
    umask = process_umask()
    root_fd = os.open(path, OPEN_FOLDER)
    try:
        if near is not None:
            from runyard.snapshots.nearby import copy_nearby  # small snapshots come along with their job

            planned = copy_nearby(near, planned, root_fd, is_known=is_known, umask=umask, tell=count.add)
        fetcher = Fetcher(content, iter_chunks(planned))
        try:
            _Writer(fetcher, umask, count, has_folders=near is not None).write(root_fd, planned)
        finally:
            fetcher.stop()
    finally:
        os.close(root_fd)


class _Writer:
    def __init__(self, fetcher: Fetcher, umask: int, count: _Count, *, has_folders: bool) -> None:
        self._fetcher = fetcher
        self._umask = umask
        self._count = count
        self._has_folders = has_folders  # they are made already

    def write(self, fd: int, folder: PlannedFolder) -> None:
        """Files and folders first, then links and the modes of folders, which may forbid to write into them."""
        self._make(fd, folder)
        self._finish(fd, folder)

    def _make(self, fd: int, folder: PlannedFolder) -> None:
        for entry in folder.files:
            self._file(fd, entry)
        for place, below in folder.folders:
            name = name_bytes(place.name)
            if not self._has_folders:
                os.mkdir(name, 0o700, dir_fd=fd)
            child = os.open(name, OPEN_FOLDER, dir_fd=fd)
            try:
                self._make(child, below)
            finally:
                os.close(child)

    def _file(self, fd: int, entry: FileEntry) -> None:
        file = os.open(name_bytes(entry.name), CREATE, entry.mode, dir_fd=fd)
        try:
            size = 0
            for chunk in entry.chunks:
                size += self._hole(file) if chunk == ZEROS else self._chunk(file, chunk)
            if size != entry.size:
                raise ProtocolError(f"`{entry.name}` has {size} bytes, the snapshot says {entry.size}.")
            if ZEROS in entry.chunks:
                os.ftruncate(file, size)
            if entry.mode & self._umask:
                os.fchmod(file, entry.mode)
        finally:
            os.close(file)

    def _hole(self, file: int) -> int:
        os.lseek(file, CHUNK_SIZE, os.SEEK_CUR)
        self._count.add(CHUNK_SIZE)
        return CHUNK_SIZE

    def _chunk(self, file: int, chunk: str) -> int:
        data = self._fetcher.next(chunk)
        _write(file, data)
        self._count.add(len(data))
        return len(data)

    def _finish(self, fd: int, folder: PlannedFolder) -> None:
        for link in folder.links:
            os.symlink(name_bytes(link.target), name_bytes(link.name), dir_fd=fd)
        for entry, below in folder.folders:
            child = os.open(name_bytes(entry.name), OPEN_FOLDER, dir_fd=fd)
            try:
                self._finish(child, below)
                if entry.mode != 0o700:
                    os.fchmod(child, entry.mode)
            finally:
                os.close(child)


def _write(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def process_umask() -> int:
    """Return this process's umask without changing it for other threads; all bits where that cannot be told."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            return int(next(line for line in lines if line.startswith("Umask:")).split()[1], 8)
    except (OSError, StopIteration, ValueError):
        return 0o777


def _refused(target: str, error: OSError) -> StoreUnavailable:
    why = f"{error.strerror or error} (errno {error.errno})."
    if isinstance(error, FileExistsError):
        why = "Two of its names are the same on this file system (large and small letters, or accents)."
    return StoreUnavailable(
        f"The snapshot could not be restored into `{target}`.",
        why=why,
        hint=f"Look at the disk with `df -h {os.path.dirname(target)}`; nothing was left behind.",
    )


def _remove(path: str) -> None:
    """Remove what was made so far; folders without permissions are opened up first."""
    waiting: List[str] = [path]
    while waiting:
        folder = waiting.pop()
        try:
            os.chmod(folder, 0o700)
            with os.scandir(folder) as entries:
                waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    import shutil  # only a restore that failed needs it

    shutil.rmtree(path, ignore_errors=True)
