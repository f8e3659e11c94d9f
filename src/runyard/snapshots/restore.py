"""Restore a snapshot as a folder, byte for byte, with modes, links and empty folders.

The plan is computed and checked before anything is written, because the trees are untrusted. The folder is made beside
its final place and renamed when it is complete. Nothing is ever opened through a link: each file is created new
(O_EXCL) relative to the descriptor of the folder just made, and links come last.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from runyard.core.errors import Conflict, ProtocolError, RunyardError, StoreUnavailable
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.formats.tree import MAX_DEPTH, FileEntry, FolderEntry, LinkEntry, decode_tree, name_bytes, tree_id
from runyard.core.machine.portable import CLOEXEC, DIRECTORY, NOFOLLOW, READ
from runyard.snapshots.fetch import Fetcher, Source
from runyard.snapshots.links import leaves_tree

MAX_ENTRIES = 5_000_000  # a few kilobytes of trees that name each other can stand for any number of files
# A whole chunk of zeros: it stays a hole in the file, neither fetched nor written.
ZEROS = "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8"
_OPEN_FOLDER = READ | DIRECTORY | NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC


class PlannedFolder(NamedTuple):
    """One tree, decoded once however often it is named."""

    files: List[FileEntry]
    links: List[LinkEntry]
    folders: List[Tuple[FolderEntry, PlannedFolder]]
    entries: int  # of this folder and all below it
    depth: int

    def entry(self, name: str) -> Optional[Union[PlannedFolder, str]]:
        """Return what `name` is, for `links.leaves_tree`."""
        for folder, below in self.folders:
            if folder.name == name:
                return below
        return next((link.target for link in self.links if link.name == name), None)


def plan_restore(root: str, trees: Mapping[str, bytes]) -> PlannedFolder:
    """Return what the root tree stands for.

    Raises:
        ProtocolError: a tree is missing or not what its id says, it is too deep or too large, or a link leads out.
        InvalidArgument: a tree cannot be read.
    """
    planned: Dict[str, PlannedFolder] = {}
    waiting = [root]
    open_trees: Dict[str, List[Union[FileEntry, FolderEntry, LinkEntry]]] = {}
    while waiting:
        name = waiting[-1]
        if name in planned:
            waiting.pop()
            continue
        if name not in open_trees:
            open_trees[name] = _decode(name, trees)
        missing = [e.tree for e in open_trees[name] if isinstance(e, FolderEntry) and e.tree not in planned]
        if missing:
            waiting.extend(missing)
            continue
        planned[name] = _join(root, open_trees.pop(name), planned)
        waiting.pop()
    _check_links(planned[root])
    return planned[root]


def _decode(name: str, trees: Mapping[str, bytes]) -> List[Union[FileEntry, FolderEntry, LinkEntry]]:
    data = trees.get(name)
    if data is None or tree_id(data) != name:
        raise _bad_snapshot("The server did not send all of its folders.", f"The tree {name} is missing or damaged.")
    return decode_tree(data)


def _join(
    root: str, entries: List[Union[FileEntry, FolderEntry, LinkEntry]], planned: Mapping[str, PlannedFolder]
) -> PlannedFolder:
    folders = [(entry, planned[entry.tree]) for entry in entries if isinstance(entry, FolderEntry)]
    count = len(entries) + sum(below.entries for _, below in folders)
    depth = 1 + max((below.depth for _, below in folders), default=0)
    if count > MAX_ENTRIES or depth > MAX_DEPTH + 1:
        raise _bad_snapshot(
            f"The snapshot {root} is too large.", f"It has {count} entries in {depth} levels of folders."
        )
    files = [entry for entry in entries if isinstance(entry, FileEntry)]
    links = [entry for entry in entries if isinstance(entry, LinkEntry)]
    return PlannedFolder(files, links, folders, count, depth)


def _check_links(root: PlannedFolder) -> None:
    waiting: List[Tuple[Tuple[str, ...], PlannedFolder]] = [((), root)]
    while waiting:
        path, folder = waiting.pop()
        for link in folder.links:
            # Without `..` a link can only lead on through others, which are checked themselves.
            risky = ".." in link.target or link.target.startswith("/")
            if risky and leaves_tree(root, path, link.target, PlannedFolder.entry):
                where = "/".join((*path, link.name))
                raise _bad_snapshot(f"The link `{where}` leads out of the folder, to `{link.target}`.", "")
        waiting.extend(((*path, entry.name), below) for entry, below in folder.folders)


def _bad_snapshot(what: str, why: str) -> ProtocolError:
    return ProtocolError(
        f"The snapshot cannot be restored. {what}", why=why, hint="Nothing was written. Take the snapshot again."
    )


def restore(root: str, content: Source, folder: str | os.PathLike[str]) -> None:
    """Make `folder` hold the snapshot whose root tree is `root`. It must not exist yet, or be empty.

    Raises:
        Conflict: the folder holds something.
        ProtocolError: the server sent what is not that snapshot.
        StoreUnavailable: the disk refused. Nothing is left behind in any case.
    """
    target = os.path.abspath(folder)
    _check_free(target)
    planned = plan_restore(root, content.tree(root))
    try:
        _publish(target, planned, content)
    except RunyardError:
        raise  # the server's; some are an OSError too
    except OSError as error:
        raise _refused(target, error) from error


def _publish(target: str, planned: PlannedFolder, content: Source) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    beside = f"{target}.part-{os.urandom(4).hex()}"
    os.mkdir(beside, 0o777)
    try:
        if os.path.isdir(target):  # an empty folder that the user made: its permissions are kept
            os.chmod(beside, os.stat(target).st_mode & 0o7777)
        _fill(beside, planned, content)
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


def _fill(path: str, planned: PlannedFolder, content: Source) -> None:
    fetcher = Fetcher(content, iter_chunks(planned))
    root_fd = os.open(path, _OPEN_FOLDER)
    try:
        _Writer(fetcher, _umask()).write(root_fd, planned)
    finally:
        fetcher.stop()
        os.close(root_fd)


def iter_chunks(folder: PlannedFolder) -> Iterator[Tuple[str, int]]:
    """Yield (chunk id, about how many bytes) in the order in which they will be written."""
    for entry in folder.files:
        left = entry.size
        for chunk in entry.chunks:
            if chunk != ZEROS:
                yield chunk, min(left, CHUNK_SIZE)
            left -= CHUNK_SIZE
    for _, below in folder.folders:
        yield from iter_chunks(below)


class _Writer:
    def __init__(self, fetcher: Fetcher, umask: int) -> None:
        self._fetcher = fetcher
        self._umask = umask

    def write(self, fd: int, folder: PlannedFolder) -> None:
        """Files and folders first, then links and the modes of folders, which may forbid to write into them."""
        self._make(fd, folder)
        self._finish(fd, folder)

    def _make(self, fd: int, folder: PlannedFolder) -> None:
        for entry in folder.files:
            self._file(fd, entry)
        for place, below in folder.folders:
            name = name_bytes(place.name)
            os.mkdir(name, 0o700, dir_fd=fd)
            child = os.open(name, _OPEN_FOLDER, dir_fd=fd)
            try:
                self._make(child, below)
            finally:
                os.close(child)

    def _file(self, fd: int, entry: FileEntry) -> None:
        file = os.open(name_bytes(entry.name), _CREATE, entry.mode, dir_fd=fd)
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
        return CHUNK_SIZE

    def _chunk(self, file: int, chunk: str) -> int:
        data = self._fetcher.next(chunk)
        _write(file, data)
        return len(data)

    def _finish(self, fd: int, folder: PlannedFolder) -> None:
        for link in folder.links:
            os.symlink(name_bytes(link.target), name_bytes(link.name), dir_fd=fd)
        for entry, below in folder.folders:
            child = os.open(name_bytes(entry.name), _OPEN_FOLDER, dir_fd=fd)
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


def _umask() -> int:
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
