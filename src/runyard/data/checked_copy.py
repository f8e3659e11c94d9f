"""A file copied and read back: what is at the target has the SHA-256 of what was read from the source."""

from __future__ import annotations

import hashlib
import os
from io import FileIO
from typing import Iterable, Iterator, Union

from runyard.core.errors import SystemFailure
from runyard.core.formats.chunks import CHUNK_SIZE

BLOCK = 1 << 20
_ZEROS = memoryview(bytes(CHUNK_SIZE))


def copy_checked(source: str, target: str) -> str:
    """Write the content of `source` to the path `target` and return its SHA-256.

    Raises:
        SystemFailure: what can be read at the target is not what was written there.
    """
    with open(source, "rb", buffering=0) as read:
        return write_checked(_iter_blocks(read), target)


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
        count = read.readinto(block) or 0
        if not count:
            return
        yield block[:count]
