"""Artifacts as files below one folder that this process alone writes to.

Every path is opened part by part from the root's descriptor with O_NOFOLLOW, and a file with a second hard link is
refused. So nothing outside the root is read, written or deleted, whatever another user plants below it. An object is
written in `tmp/`, synced and renamed into place, so that it is there whole or not at all.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.content import RESERVED, split_key, split_prefix, unknown_key
from runyard.core.errors import StoreUnavailable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MOST_PIECES = 512  # IOV_MAX is 1024 on Linux
_LOCKS = 64


class FilesystemStore(ArtifactStore):
    def __init__(self, root: Path) -> None:
        """Open the store below `root`, made when missing; what a crash left half-written is removed."""
        self._root = root
        with self._faults("open"):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root_fd = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
            self._tmp_fd = self._open_folder([RESERVED], make=True)
            for name in os.listdir(self._tmp_fd):
                os.unlink(name, dir_fd=self._tmp_fd)
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def put(self, key: str, data: bytes | list[bytes]) -> None:
        parts = split_key(key)
        with self._faults("write", key):
            self._put(parts, [data] if isinstance(data, bytes) else data)

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        with self._faults("read", key):
            fd = self._open_file(key, os.O_RDONLY)
            if fd is None:
                raise unknown_key(key)
            return _read_and_close(fd, offset, length)

    def size(self, key: str) -> int:
        found = self._find_size(key)
        if found is None:
            raise unknown_key(key)
        return found

    def delete(self, key: str) -> None:
        parts = split_key(key)
        with self._faults("delete", key), self._lock(key):
            try:
                folder = self._open_folder(parts[:-1])
            except FileNotFoundError:
                return
            try:
                os.unlink(parts[-1], dir_fd=folder)
                os.fsync(folder)
            except FileNotFoundError:
                pass
            finally:
                os.close(folder)

    def move(self, key: str, to: str) -> None:
        *folders, name = split_key(key)
        *new_folders, new_name = split_key(to)
        with self._faults("move", key), self._lock(key):
            try:
                source = self._open_folder(folders)
            except FileNotFoundError:
                raise unknown_key(key) from None
            try:
                target = self._open_folder(new_folders, make=True)
                try:
                    os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
                    os.fsync(target)
                    os.fsync(source)
                finally:
                    os.close(target)
            except FileNotFoundError:
                raise unknown_key(key) from None
            finally:
                os.close(source)

    def iter_keys(self, prefix: str) -> Iterator[str]:
        folders, start = split_prefix(prefix)
        with self._faults("list", prefix):
            try:
                fd = self._open_folder(folders)
            except FileNotFoundError:
                return
            found = sorted(self._list(fd, "".join(f"{folder}/" for folder in folders), start))
        yield from found

    def append(self, key: str, offset: int, data: bytes) -> int:
        with self._faults("write", key), self._lock(key):
            fd = self._open_file(key, os.O_RDWR | os.O_CREAT)
            assert fd is not None
            try:
                return _append(fd, offset, data)
            finally:
                os.close(fd)

    def stream_size(self, key: str) -> int:
        return self._find_size(key) or 0

    def read_stream(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        with self._faults("read", key):
            fd = self._open_file(key, os.O_RDONLY)
            return b"" if fd is None else _read_and_close(fd, offset, length)

    def close(self) -> None:
        """Give the descriptors back; twice is fine."""
        held, self._root_fd, self._tmp_fd = (self._root_fd, self._tmp_fd), -1, -1
        for fd in held:
            if fd >= 0:
                os.close(fd)

    def _find_size(self, key: str) -> int | None:
        with self._faults("read", key):
            fd = self._open_file(key, os.O_RDONLY)
            if fd is None:
                return None
            try:
                return os.fstat(fd).st_size
            finally:
                os.close(fd)

    def _put(self, parts: list[str], pieces: list[bytes]) -> None:
        temporary = os.urandom(16).hex()
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=self._tmp_fd)
        try:
            try:
                _write_all(fd, pieces)
                os.fdatasync(fd)
            finally:
                os.close(fd)
            folder = self._open_folder(parts[:-1], make=True)
            try:
                os.rename(temporary, parts[-1], src_dir_fd=self._tmp_fd, dst_dir_fd=folder)
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException:
            _unlink(temporary, self._tmp_fd)
            raise

    def _open_folder(self, parts: list[str], *, make: bool = False) -> int:
        fd = os.open(".", _FOLDER, dir_fd=self._root_fd)
        for part in parts:
            parent = fd
            try:
                fd = _open_child(part, parent, make)
            finally:
                os.close(parent)
        return fd

    def _open_file(self, key: str, flags: int) -> int | None:
        """Return a descriptor of the plain file, None when there is none (and `flags` do not make it)."""
        parts = split_key(key)
        make = bool(flags & os.O_CREAT)
        try:
            folder = self._open_folder(parts[:-1], make=make)
        except FileNotFoundError:
            return None
        try:
            return _open_plain(parts[-1], flags, folder)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)

    def _list(self, fd: int, path: str, start: str) -> Iterator[str]:
        """Yield keys below an open folder, which is closed; links and half-written files are none."""
        folders = []
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    if not entry.name.startswith(start) or path + entry.name == RESERVED:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        yield path + entry.name
            for name in folders:
                yield from self._list(os.open(name, _FOLDER, dir_fd=fd), f"{path}{name}/", "")
        finally:
            os.close(fd)

    def _lock(self, key: str) -> threading.Lock:
        return self._locks[hash(key) % _LOCKS]

    @contextmanager
    def _faults(self, verb: str, key: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = self._root / key if key else self._root
            raise _unavailable(verb, place, error) from error


def _open_child(part: str, parent: int, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(part, 0o700, dir_fd=parent)
        os.fsync(parent)
    except FileExistsError:
        pass  # another thread was first
    return os.open(part, _FOLDER, dir_fd=parent)


def _open_plain(name: str, flags: int, folder: int) -> int:
    fd = os.open(name, flags | _FILE, 0o600, dir_fd=folder)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(fd)
        raise OSError(errno.EPERM, "it is not a plain file with one name: somebody else put it there")
    if flags & os.O_CREAT and status.st_size == 0:
        os.fsync(folder)
    return fd


def _append(fd: int, offset: int, data: bytes) -> int:
    size = os.fstat(fd).st_size
    end = offset + len(data)
    if offset > size or end <= size:
        return size
    view = memoryview(data)[size - offset :]
    at = size
    try:
        while view:
            written = os.pwrite(fd, view, at)
            at += written
            view = view[written:]
        os.fdatasync(fd)
    except OSError:
        os.ftruncate(fd, size)  # what is not known to be durable must not count as stored
        raise
    return end


def _write_all(fd: int, pieces: list[bytes]) -> None:
    views = [memoryview(piece) for piece in pieces if piece]
    at = 0
    while at < len(views):
        written = os.writev(fd, views[at : at + _MOST_PIECES])
        while at < len(views) and written >= len(views[at]):
            written -= len(views[at])
            at += 1
        if written:
            views[at] = views[at][written:]


def _read_and_close(fd: int, offset: int, length: int | None) -> bytes:
    try:
        left = max(0, os.fstat(fd).st_size - offset)
        left = left if length is None else min(left, length)
        pieces = []
        while left > 0:
            data = os.pread(fd, left, offset)
            if not data:
                break
            pieces.append(data)
            offset += len(data)
            left -= len(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        os.close(fd)


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass


def _unavailable(verb: str, place: Path, error: OSError) -> StoreUnavailable:
    if error.errno in _FULL:
        hint = (
            f"Make room (`df -h {place.parent}` shows how full the disk is), then try again. Nothing partial is kept."
        )
    elif error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EPERM):
        hint = f"Look at it with `ls -l {place}`. Only the server may put files there; remove what is not its own."
    else:
        hint = f"Look at the folder with `ls -ld {place.parent}`, and at the disk with `dmesg | tail`."
    reason = error.strerror or str(error)
    return StoreUnavailable(
        f"The artifact store could not {verb} `{place}`.", why=f"{reason} (errno {error.errno}).", hint=hint
    )
