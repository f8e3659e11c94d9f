"""The storage `folder`: a datastore that is a folder of this machine, or of a file system that all machines share."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

from runyard.core.errors import Conflict, InvalidArgument, NotFound, StoreUnavailable, SystemFailure
from runyard.core.machine.whole_files import written_beside
from runyard.data.base import Storage, StoredFile
from runyard.data.checked_copy import copy_checked, write_checked
from runyard.data.paths import below
from runyard.data.walk import iter_files

STAGING = ".runyard"  # in the datastore's own folder, so that a whole file can be renamed into place
STALE_S = 86400.0  # what a killed process left there is swept up after a day


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

    def put_file(self, source: str, name: str) -> None:
        self._put(name, lambda part: copy_checked(source, part))

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

    def fetch_file(self, name: str, target: str) -> None:
        if self.find_file(name) is None:
            raise NotFound(f"The datastore's folder {self._root} holds no file `{name}`.")
        with written_beside(target) as beside:
            copy_checked(below(self._root, name), beside)

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
