"""A file appears whole or not at all: written beside its place, and renamed into it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Iterator


@contextmanager
def written_beside(target: str) -> Iterator[str]:
    """Give a path to write to. What is there takes the place of `target` when the block ends well, else it goes."""
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    beside = f"{target}.{os.urandom(4).hex()}.part"
    try:
        yield beside
        os.replace(beside, target)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise


def write_whole(path: str, data: bytes, *, sync: bool = False) -> None:
    """Put a private file with this content in place of `path`, in a folder that exists.

    With `sync`, a loss of power leaves the old file or the new one. Which of them is certain only after `sync_folder`.
    """
    beside = f"{path}.{os.urandom(4).hex()}.new"
    try:
        write_new(beside, data, sync=sync)
        os.replace(beside, path)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise


def write_new(path: str, data: bytes, *, sync: bool = False) -> None:
    """Make a private file. Raises FileExistsError. A crash may leave a part of it, unless it comes after a `sync`."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Have the names in a folder survive a loss of power."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
