"""A snapshot as one zip file. The same snapshot gives the same bytes: no times, no compression, one order.

Permission bits, links and empty folders are kept, as `unzip` restores them.
"""

from __future__ import annotations

import os
import stat
import zipfile
from typing import IO

from runyard.core.errors import ProtocolError, RunyardError, StoreUnavailable
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.formats.tree import FileEntry, name_bytes
from runyard.core.machine.whole_files import written_beside
from runyard.snapshots.fetch import Fetcher
from runyard.snapshots.plan import PlannedFolder, plan_restore
from runyard.snapshots.restore import ZEROS, iter_chunks
from runyard.snapshots.sender import Content

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
        with written_beside(target) as beside, zipfile.ZipFile(beside, "x", zipfile.ZIP_STORED) as archive:
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
