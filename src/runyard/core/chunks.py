"""How a file becomes chunks: at most 4 MiB each, named by their SHA-256, read so that a torn file is noticed."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Callable, List, NamedTuple, Optional, Tuple

CHUNK_SIZE = 4 << 20
BATCH_BYTES = 8 << 20  # content travels in bodies of about this size; the server takes 32 MiB
BATCH_COUNT = 4096
TRIES = 3
# A write that began this shortly before the read may still be going on, and a clock tick may hide the next one.
FRESH_NS = 2_000_000_000

Chunk = Tuple[str, bytes]
TakeChunk = Callable[[str, bytes], None]
Clock = Callable[[], int]  # wall clock in ns


class ReadFile(NamedTuple):
    """What `read_chunks` found. `status` is the stat taken before the bytes were read."""

    chunks: List[str]
    size: int
    sha256: str  # of the whole file; "" unless asked for
    changed: bool  # it changed in every try: the bytes may be a mixture
    status: os.stat_result


def chunk_id(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_chunks(
    fd: int, take: TakeChunk, *, whole: bool = False, tries: int = TRIES, clock: Clock = time.time_ns
) -> ReadFile:
    """Read an open file from its start, give each chunk to `take`, and read again when it changed meanwhile.

    `take` may see chunks of a try that is thrown away. A file whose inode changed within the last two seconds is read
    twice, because a `write` that is under way shows only in the bytes.
    """
    found = _read_once(fd, take, whole, clock())
    while found.changed and tries > 1:
        tries -= 1
        found = _read_once(fd, take, whole, clock())
    return found


def _read_once(fd: int, take: TakeChunk, whole: bool, now: int) -> ReadFile:
    before = os.fstat(fd)
    sums = hashlib.sha256() if whole else None
    chunks: List[str] = []
    size = 0
    while size < before.st_size:
        data = _read_full(fd, size, min(CHUNK_SIZE, before.st_size - size))
        if not data:
            break
        size += len(data)
        name = chunk_id(data)
        chunks.append(name)
        if sums is not None:
            sums.update(data)
        take(name, data)
    changed = size != before.st_size or _differs(before, os.fstat(fd))
    if not changed and before.st_ctime_ns > now - FRESH_NS:
        changed = not _same_again(fd, chunks) or _differs(before, os.fstat(fd))
    return ReadFile(chunks, size, sums.hexdigest() if sums is not None else "", changed, before)


def _same_again(fd: int, chunks: List[str]) -> bool:
    for index, name in enumerate(chunks):
        if chunk_id(_read_full(fd, index * CHUNK_SIZE, CHUNK_SIZE)) != name:
            return False
    return not os.pread(fd, 1, len(chunks) * CHUNK_SIZE)


def _read_full(fd: int, offset: int, length: int) -> bytes:
    """Return `length` bytes, fewer only at the end of the file: a short read must not shift the chunk borders."""
    data = os.pread(fd, length, offset)
    while data and len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def _differs(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_size, one.st_mtime_ns, one.st_ctime_ns) != (other.st_size, other.st_mtime_ns, other.st_ctime_ns)


class Batcher:
    """Collects chunks until a request body is full; `push` returns the batch that is to travel now, if any."""

    def __init__(self) -> None:
        self._items: List[Chunk] = []
        self._size = 0

    def push(self, name: str, data: bytes) -> Optional[List[Chunk]]:
        self._items.append((name, data))
        self._size += len(data)
        if self._size >= BATCH_BYTES or len(self._items) >= BATCH_COUNT:
            return self.flush()
        return None

    def flush(self) -> List[Chunk]:
        items, self._items, self._size = self._items, [], 0
        return items
