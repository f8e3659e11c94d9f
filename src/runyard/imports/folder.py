"""Walks the folder of a source: never out of it, whatever links are there, and never more than it must hold."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Callable, Iterator, List, Optional, Tuple
from urllib.parse import unquote, urlsplit

from runyard.core.names import stored_file_name
from runyard.imports.records import SourceFile

MOST_TEXT = 16 << 20  # bytes of one small file: a YAML, a parameter, a tag
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
Note = Callable[[str], None]


class OutsideFolder(ValueError):
    """A path or a link leads out of the folder that is imported."""


def open_inside(root: str, path: str) -> BinaryIO:
    """Open a regular file below `root`. The folders of `path` were walked, so none of them is a link.

    Raises:
        OutsideFolder: it is a link that leads elsewhere.
        OSError: it cannot be opened, or is no regular file.
    """
    try:
        fd = os.open(path, _READ | _NO_LINK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        real = os.path.realpath(path)
        if not is_inside(os.path.realpath(root), real):
            raise OutsideFolder(f"{os.path.basename(path)[:200]!r} is a link out of the folder") from None
        fd = os.open(real, _READ)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{os.path.basename(path)[:200]!r} is no regular file")
    return os.fdopen(fd, "rb")


def read_text(root: str, path: str, *, most: int = MOST_TEXT) -> str:
    """Return a small file as text; ValueError when it is too large or no UTF-8."""
    with open_inside(root, path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{os.path.basename(path)[:200]!r} has more than {most:,} bytes")
    return data.decode("utf-8")


def iter_names(root: str, folder: str, note: Note) -> Iterator[Tuple[str, os.stat_result]]:
    """Yield (name below `folder`, status) of the regular files there, sorted; links out of `root` are noted.

    A link inside the root is followed once: a folder that is its own parent is not walked for ever.
    """
    real_root = os.path.realpath(root)
    waiting: List[Tuple[str, int]] = [("", 0)]
    while waiting:
        below, depth = waiting.pop()
        try:
            with os.scandir(os.path.join(folder, below) if below else folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            note(f"{below or '.'}: {error.strerror}")
            continue
        folders: List[Tuple[str, int]] = []
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            try:
                if entry.is_symlink() and not is_inside(real_root, os.path.realpath(entry.path)):
                    note(f"{name}: a link out of the folder")
                    continue
                if entry.is_dir():
                    if depth < 64 and not entry.is_symlink():
                        folders.append((name, depth + 1))
                    else:
                        note(f"{name}: a link to a folder, or nested too deeply")
                elif entry.is_file():
                    yield name, entry.stat()
                else:
                    note(f"{name}: no regular file")
            except OSError as error:
                note(f"{name}: {error.strerror}")
        waiting += reversed(folders)


def list_files(root: str, folder: str, note: Note, *, prefix: str = "") -> List[SourceFile]:
    """Return the files below `folder` with the names that they get in a run; those that cannot be used are noted."""
    found = []
    for name, status in iter_names(root, folder, note):
        try:
            stored = stored_file_name(prefix + name)
        except ValueError as error:
            note(f"{name[:200]!r}: {getattr(error, 'why', '') or error}")
            continue
        path = os.path.join(folder, name)
        found.append(SourceFile(stored, status.st_size, _opener(root, path), str(status.st_mtime_ns)))
    return found


def _opener(root: str, path: str) -> Callable[[], BinaryIO]:
    return lambda: open_inside(root, path)


def is_inside(real_root: str, real_path: str) -> bool:
    return real_path == real_root or real_path.startswith(real_root.rstrip(os.sep) + os.sep)


def path_of_uri(uri: str) -> Optional[str]:
    """Return the path that a `file:` URI or a plain path names; None for other schemes."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return unquote(parts.path)
    return uri if not parts.scheme or (os.name == "nt" and len(parts.scheme) == 1) else None
