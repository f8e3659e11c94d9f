"""What differs between the systems of clients: flags of open files, folders that are held open, the user's number.

Linux and macOS hold a folder open by a number, so that no process can put a link in its place while it is read. Windows
cannot: there an open folder is its path, and a link is found by a look before the opening.
"""

from __future__ import annotations

import os
from typing import Optional, Union

CLOEXEC = getattr(os, "O_CLOEXEC", 0)
DIRECTORY = getattr(os, "O_DIRECTORY", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
NOCTTY = getattr(os, "O_NOCTTY", 0)
BINARY = getattr(os, "O_BINARY", 0)  # Windows translates line ends without it
READ = os.O_RDONLY | CLOEXEC | BINARY
WRITE = os.O_WRONLY | CLOEXEC | BINARY
_OPEN_FILE = READ | NOFOLLOW | NONBLOCK | NOCTTY

OpenFolder = Union[int, str]
_HOLDS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


def open_folder(name: str, *, at: Optional[OpenFolder] = None, follow: bool = False) -> OpenFolder:
    """Hold a folder open for the calls below; `name` is below the open folder `at`, or a path.

    Raises:
        OSError: it is no folder, or a link while `follow` is false.
    """
    if _HOLDS:
        flags = READ | DIRECTORY | (0 if follow else NOFOLLOW)
        return os.open(name, flags, dir_fd=at if isinstance(at, int) else None)
    path = name if at is None else os.path.join(str(at), name)
    if not follow and at is not None and os.path.islink(path):
        raise NotADirectoryError(20, "Not a directory", path)
    os.scandir(path).close()  # raises what an opening would
    return os.path.abspath(path)


def close_folder(folder: OpenFolder) -> None:
    if isinstance(folder, int):
        os.close(folder)


def folder_status(folder: OpenFolder) -> os.stat_result:
    return os.stat(folder)


def status_at(folder: OpenFolder, name: str) -> os.stat_result:
    """Return the status of an entry; a link's is its own."""
    if isinstance(folder, int):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return os.lstat(os.path.join(folder, name))


def readlink_at(folder: OpenFolder, name: str) -> str:
    if isinstance(folder, int):
        return os.readlink(name, dir_fd=folder)
    return os.readlink(os.path.join(folder, name))


def open_file_at(folder: OpenFolder, name: str) -> int:
    """Open an entry for reading, neither through a link nor with a wait for a FIFO's writer."""
    if isinstance(folder, int):
        return os.open(name, _OPEN_FILE, dir_fd=folder)
    path = os.path.join(folder, name)
    if os.path.islink(path):
        raise OSError(40, "Too many levels of symbolic links", path)
    return os.open(path, _OPEN_FILE)


def read_at(file: int, length: int, offset: int) -> bytes:
    """Return up to `length` bytes from `offset` on."""
    pread = getattr(os, "pread", None)
    if pread is not None:
        return bytes(pread(file, length, offset))
    os.lseek(file, offset, os.SEEK_SET)
    return os.read(file, length)


def own_user() -> int:
    """Return the user's number; 0 where files have none, as their owner is 0 there too."""
    getuid = getattr(os, "getuid", None)
    return int(getuid()) if getuid is not None else 0


def has_modes() -> bool:
    """Whether a file's mode says who can read it; on Windows the user's own folder does."""
    return hasattr(os, "getuid")
