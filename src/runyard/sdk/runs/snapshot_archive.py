"""Snapshots without a folder on disk: as one zip file, as a list of files, and as the difference of two lists.

The same snapshot gives the same zip bytes: no times, no compression, one order. Permission bits, links and empty
folders are kept, as `unzip` restores them.
"""

from __future__ import annotations

import os
import stat
import zipfile
from typing import IO, TYPE_CHECKING, Dict, List, NamedTuple, Tuple

from runyard.core.errors import NotFound, ProtocolError, RunyardError, StoreUnavailable
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.formats.tree import FileEntry, name_bytes
from runyard.core.machine.files import atomic_write
from runyard.snapshots.fetch import Fetcher
from runyard.snapshots.plan import ZEROS, PlannedFolder, iter_chunks, plan_restore
from runyard.snapshots.take import Content

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core.records import Run


_UNIX = 3  # says that the upper half of `external_attr` is a mode
_IS_FOLDER = 0x10  # the same for readers that know no modes


def write_zip(root: str, content: Content, path: str | os.PathLike[str]) -> None:
    """Write the snapshot whose root tree is `root` to the file `path`; folders above it are made.

    Raises:
        ProtocolError: the server sent what is not that snapshot.
        StoreUnavailable: the disk refused. `path` is complete or untouched in any case.
    """
    target = os.path.abspath(path)
    planned = plan_restore(root, content.tree(root))
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _publish(target, planned, content)
    except RunyardError:
        raise  # the server's; some are an OSError too
    except OSError as error:
        raise StoreUnavailable(
            f"The snapshot could not be written to `{target}`.",
            why=f"{error.strerror or error} (errno {error.errno}).",
            hint=f"Look at the disk with `df -h {os.path.dirname(target)}`, or name another folder.",
        ) from error


def _publish(target: str, planned: PlannedFolder, content: Content) -> None:
    fetcher = Fetcher(content, iter_chunks(planned))
    try:
        with atomic_write(target) as beside, zipfile.ZipFile(beside, "x", zipfile.ZIP_STORED) as archive:
            _Packer(archive, fetcher).add("", planned)
    finally:
        fetcher.stop()


class _Packer:
    def __init__(self, archive: zipfile.ZipFile, fetcher: Fetcher) -> None:
        self._archive = archive
        self._fetcher = fetcher

    def add(self, prefix: str, folder: PlannedFolder) -> None:
        """Add files, links, then folders: the order in which the fetcher brings their content."""
        for entry in folder.files:
            self._file(prefix, entry)
        for link in folder.links:
            self._archive.writestr(_info(prefix + link.name, stat.S_IFLNK | 0o777), name_bytes(link.target))
        for place, below in folder.folders:
            path = f"{prefix}{place.name}/"
            self._archive.writestr(_info(path, stat.S_IFDIR | place.mode), b"")
            self.add(path, below)

    def _file(self, prefix: str, entry: FileEntry) -> None:
        info = _info(prefix + entry.name, stat.S_IFREG | entry.mode)
        info.file_size = entry.size  # decides whether the entry needs 64-bit sizes
        with self._archive.open(info, "w") as out:
            size = sum(self._chunk(out, chunk) for chunk in entry.chunks)
        if size != entry.size:
            raise ProtocolError(f"`{entry.name}` has {size} bytes, the snapshot says {entry.size}.")

    def _chunk(self, out: IO[bytes], chunk: str) -> int:
        return out.write(bytes(CHUNK_SIZE) if chunk == ZEROS else self._fetcher.next(chunk))


def _info(name: str, mode: int) -> zipfile.ZipInfo:
    # A zip's names are UTF-8: bytes that are not are written out, as \xff.
    info = zipfile.ZipInfo(name_bytes(name).decode("utf-8", "backslashreplace"))
    info.create_system = _UNIX
    info.external_attr = mode << 16 | (_IS_FOLDER if stat.S_ISDIR(mode) else 0)
    return info


class ArchivedFile(NamedTuple):
    path: str
    size: int
    mode: int
    chunks: Tuple[str, ...]
    link: str = ""  # where it leads, for a link


class SnapshotChange(NamedTuple):
    path: str
    kind: str  # "added", "removed" or "changed"


def list_snapshot(client: Client, run: Run) -> Dict[str, ArchivedFile]:
    """Return the files of a run's snapshot by their paths, sorted.

    Raises:
        NotFound: the run has none.
    """
    if run.snapshot_root is None:
        raise NotFound(
            f"Run `{run.id}` has no snapshot.",
            why="It was not submitted with a source folder.",
            hint="Runs of `runyard submit` and `experiment.submit` have one.",
        )
    root = plan_restore(run.snapshot_root, client.content.tree(run.snapshot_root))
    return {file.path: file for file in sorted(_walk(root))}


def compare_snapshots(old: Dict[str, ArchivedFile], new: Dict[str, ArchivedFile]) -> List[SnapshotChange]:
    """Return what was added, removed or changed between two lists, by path."""
    changes = []
    for path in sorted({*old, *new}):
        if path not in old:
            changes.append(SnapshotChange(path, "added"))
        elif path not in new:
            changes.append(SnapshotChange(path, "removed"))
        elif old[path] != new[path]:
            changes.append(SnapshotChange(path, "changed"))
    return changes


def read_snapshot_file(client: Client, file: ArchivedFile) -> bytes:
    return b"".join(data for _, data in client.content.fetch(file.chunks)) if file.chunks else b""


def _walk(root: PlannedFolder) -> List[ArchivedFile]:
    files: List[ArchivedFile] = []
    waiting = [("", root)]
    while waiting:
        prefix, folder = waiting.pop()
        files += [ArchivedFile(prefix + file.name, file.size, file.mode, tuple(file.chunks)) for file in folder.files]
        files += [ArchivedFile(prefix + link.name, 0, 0o777, (), link.target) for link in folder.links]
        waiting += [(f"{prefix}{entry.name}/", below) for entry, below in folder.folders]
    return files
