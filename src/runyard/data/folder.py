"""The storage `folder`: a datastore that is a folder of this machine, or of a file system that all machines share.

`copy_checked` and `write_checked` read a file back: the target has the SHA-256 of the source. `iter_files` follows
links to folders, and enters a folder that contains itself once. `clean_data_path` checks paths on a datastore:
relative, with `/` between folders, and never out of their root.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from io import FileIO
from operator import attrgetter
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Set, Tuple, Union

from runyard.core.errors import Conflict, InvalidArgument, NotFound, StoreUnavailable, SystemFailure
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.machine.files import atomic_write
from runyard.data.base import Count, Storage, StoredFile, count_nothing, counted

BLOCK = 1 << 20
_ZEROS = memoryview(bytes(CHUNK_SIZE))
STAGING = ".runyard"  # in the datastore's own folder, so that a whole file can be renamed into place
STALE_S = 86400.0  # what a killed process left there is swept up after a day


def copy_checked(source: str, target: str, count: Count = count_nothing) -> str:
    """Write the content of `source` to the path `target` and return its SHA-256.

    Raises:
        SystemFailure: what can be read at the target is not what was written there.
    """
    with open(source, "rb", buffering=0) as read:
        return write_checked(counted(_iter_blocks(read), count), target)


def write_checked(pieces: Iterable[Union[bytes, memoryview]], target: str) -> str:
    """Write the pieces to the path `target`, read them back and return their SHA-256.

    Pieces of zeros become holes, which take no space on the disk.

    Raises:
        SystemFailure: what can be read at the target is not what was written there.
    """
    digest = hashlib.sha256()
    with open(target, "wb", buffering=0) as out:
        for piece in pieces:
            left = memoryview(piece)
            digest.update(left)
            if left == _ZEROS[: len(left)]:
                out.seek(len(left), os.SEEK_CUR)
                continue
            while left:
                left = left[out.write(left) or 0 :]
        if out.tell() > os.fstat(out.fileno()).st_size:  # it ends with a hole
            out.truncate()
    wanted, found = digest.hexdigest(), file_digest(target)
    if found != wanted:
        raise SystemFailure(
            f"What was written to {target} is not there: SHA-256 {found[:16]}… instead of {wanted[:16]}….",
            why=f"The file system below {target} did not keep what was written, or somebody else wrote there.",
            hint="Look at its disk (`dmesg`) and the space left on it (`df`), then repeat the transfer.",
        )
    return wanted


def file_digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as read:
        for block in _iter_blocks(read):
            digest.update(block)
    return digest.hexdigest()


def _iter_blocks(read: FileIO) -> Iterator[memoryview]:
    """Yield a file's blocks; each is good until the next."""
    block = memoryview(bytearray(BLOCK))
    while True:
        size = read.readinto(block) or 0
        if not size:
            return
        yield block[:size]


class FoundFile(NamedTuple):
    name: str  # relative, `/` between folders
    path: str
    size: int


def iter_files(folder: str) -> Iterator[FoundFile]:
    """Yield the regular files below `folder`, sorted within each folder."""
    return _iter_below(folder, "", set())


def _iter_below(folder: str, prefix: str, seen: Set[Tuple[int, int]]) -> Iterator[FoundFile]:
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    with os.scandir(folder) as entries:
        found = sorted(entries, key=attrgetter("name"))
    for entry in found:
        try:
            about = entry.stat()
        except FileNotFoundError:  # a link to nowhere, or removed meanwhile
            continue
        if stat.S_ISDIR(about.st_mode):
            yield from _iter_below(entry.path, f"{prefix}{entry.name}/", seen)
        elif stat.S_ISREG(about.st_mode):
            yield FoundFile(prefix + entry.name, entry.path, about.st_size)


def clean_data_path(path: Optional[str]) -> str:
    """Return the one canonical form of a path on a datastore; the datastore itself is the empty text.

    Raises:
        InvalidArgument: it leaves the datastore, or no file can have that name.
    """
    if path is None:
        return ""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument(f"A path on a datastore must be text, found {type(path).__name__} ({path!r:.100}).")
    text = str(os.fspath(path))
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in text:
        raise InvalidArgument(
            f"The path {text[:200]!r} leaves the datastore or cannot be a file's name.",
            hint="Name it relative to the datastore, such as `data/train`.",
        )
    return "/".join(parts)


def below(root: str, path: str) -> str:
    """Return the place of a clean path below the folder `root`."""
    return os.path.join(root, *path.split("/")) if path else root


class FolderStorage(Storage):
    at_once = 4  # hashing and copying go on beside each other, and shared file systems answer late

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._root = str(document["path"])
        self._make = bool(document.get("make"))

    def iter_files(self, path: str = "") -> Iterator[StoredFile]:
        found = self.find_file(path) if path else None
        if found is not None:
            yield found
            return
        folder = below(self._root, path)
        if not os.path.isdir(folder):
            return
        prefix = f"{path}/" if path else ""
        for file in iter_files(folder):
            if path or not file.name.startswith(f"{STAGING}/"):
                yield StoredFile(prefix + file.name, file.size)

    def find_file(self, name: str) -> Optional[StoredFile]:
        place = below(self._root, name)
        return StoredFile(name, os.path.getsize(place)) if os.path.isfile(place) else None

    def put_file(self, source: str, name: str, count: Count = count_nothing) -> None:
        self._put(name, lambda part: copy_checked(source, part, count))

    def put_pieces(self, pieces: Iterable[bytes], name: str) -> None:
        """Store what the pieces make up under that name, whole or not at all."""
        self._put(name, lambda part: write_checked(pieces, part))

    def _put(self, name: str, write: Callable[[str], object]) -> None:
        self._check_root()
        target = below(self._root, name)
        part = os.path.join(self._root, STAGING, f"{os.urandom(8).hex()}.part")
        try:
            _begin(part)
            write(part)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(part, target)
        except OSError as error:
            raise self._explained(error, name) from error
        finally:
            self._sweep(part)

    def fetch_file(self, name: str, target: str, count: Count = count_nothing) -> None:
        if self.find_file(name) is None:
            raise NotFound(f"The datastore's folder {self._root} holds no file `{name}`.")
        with atomic_write(target) as beside:
            copy_checked(below(self._root, name), beside, count)

    def find_local(self, path: str) -> Optional[str]:
        self._check_root()
        return below(self._root, path)

    def _check_root(self) -> None:
        if os.path.isdir(self._root):
            return
        if not self._make:
            raise NotFound(
                f"The datastore's folder {self._root} does not exist on this machine.",
                why="It was removed, or its file system is not mounted here.",
                hint="Make it again, or register the datastore with another folder: "
                "Datastore.register_folder(ws, name, path, overwrite=True).",
            )
        os.makedirs(self._root, mode=0o700, exist_ok=True)

    def _sweep(self, part: str) -> None:
        """Remove our own unfinished file, those that dead processes left, and the staging folder with the last."""
        staging = os.path.dirname(part)
        try:
            if os.path.lexists(part):
                os.unlink(part)
            with os.scandir(staging) as entries:
                left = list(entries)
            for entry in left:
                if time.time() - entry.stat().st_mtime > STALE_S:
                    os.unlink(entry.path)
            os.rmdir(staging)
        except OSError:  # another upload is going on, or was faster
            pass

    def _explained(self, error: OSError, name: str) -> Exception:
        if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY):
            return Conflict(
                f"The datastore cannot hold a file `{name}`.",
                why=f"What is there already is in its way: {error.strerror}.",
                hint="Choose another target_path.",
            )
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
            return InvalidArgument(
                f"The datastore cannot hold a file `{name[:200]}`.",
                why=f"Its file system refuses the name: {error.strerror}.",
                hint="Each part of a name may have 255 bytes on most file systems.",
            )
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return StoreUnavailable(
                f"The file `{name}` does not fit into the datastore's folder {self._root}.",
                why=f"{error.strerror}. What was written of it is deleted again.",
                hint="Free space there, and try again.",
            )
        return SystemFailure(
            f"The file `{name}` could not be written to the datastore's folder {self._root}.", why=str(error)
        )


def _begin(part: str) -> None:
    """Make the empty file. An upload that just ended may take the staging folder away in between: try again."""
    for left in reversed(range(100)):
        try:
            os.makedirs(os.path.dirname(part), mode=0o700, exist_ok=True)
            with open(part, "xb"):
                return
        except (FileNotFoundError, FileExistsError):
            if not left:
                raise
