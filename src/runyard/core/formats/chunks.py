"""Split a file into chunks: at most 4 MiB each, named by their SHA-256, read so that a torn file is noticed."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Callable, List, NamedTuple, Optional, Tuple

from runyard.core.machine.portable import read_at

CHUNK_SIZE = 4 << 20
BATCH_BYTES = 8 << 20  # content travels in bodies of about this size; the server takes 32 MiB
BATCH_COUNT = 4096
TRIES = 3
FRESH_NS = 2_000_000_000  # a file whose inode changed this shortly ago may still be changing
_MOST_WAIT_NS = 50_000_000  # a tick has at most 10 ms
_COARSE_CLOCK = 5  # CLOCK_REALTIME_COARSE, the clock of inode time stamps; Python does not name it

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
    fd: int,
    take: TakeChunk,
    *,
    whole: bool = False,
    careful: bool = False,
    tries: int = TRIES,
    clock: Clock = time.time_ns,
) -> ReadFile:
    """Read an open file from its start, give each chunk to `take`, and read again when it changed meanwhile.

    `take` may see chunks of a try that is thrown away. `careful` sees to it that no torn file goes without `changed`:
    the stat before and after shows neither a `write` that is under way nor a second one in the same clock tick.
    """
    found = _read_once(fd, take, whole, careful, clock())
    while found.changed and tries > 1:
        tries -= 1
        found = _read_once(fd, take, whole, careful, clock())
    return found


def _read_once(fd: int, take: TakeChunk, whole: bool, careful: bool, now: int) -> ReadFile:
    before = os.fstat(fd)
    writer = has_writer(fd) if careful else False
    if careful and writer is False and _wait_for_tick(before):
        before = os.fstat(fd)
        writer = has_writer(fd)
    sums = hashlib.sha256() if whole and before.st_size > CHUNK_SIZE else None
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
    if not changed and writer is not False:
        changed = _may_be_torn(fd, chunks, before, writer, now)
    digest = sums.hexdigest() if sums is not None else _digest_of_one(chunks) if whole else ""
    return ReadFile(chunks, size, digest, changed, before)


def _digest_of_one(chunks: List[str]) -> str:
    """Return the SHA-256 of a file of at most one chunk, which is that chunk's id: small files are hashed once."""
    return chunks[0] if chunks else chunk_id(b"")


def _may_be_torn(fd: int, chunks: List[str], before: os.stat_result, writer: Optional[bool], now: int) -> bool:
    """Judge a file that a process may be writing to (`writer` None: that cannot be found out)."""
    is_fresh = before.st_ctime_ns > now - FRESH_NS
    if writer and is_fresh:
        return True
    return (is_fresh or bool(writer)) and (not _same_again(fd, chunks) or _differs(before, os.fstat(fd)))


def _wait_for_tick(status: os.stat_result) -> bool:
    """Wait while the file's time stamp is of this very clock tick, in which the next change would not show."""
    ahead_ns = status.st_ctime_ns - time.clock_gettime_ns(_COARSE_CLOCK)
    if ahead_ns < 0 or ahead_ns > _MOST_WAIT_NS:  # far in the future: another machine's clock made it
        return False
    while status.st_ctime_ns >= time.clock_gettime_ns(_COARSE_CLOCK):
        time.sleep(0.001)
    return True


def has_writer(fd: int) -> Optional[bool]:
    """Whether any process has the file open for writing; None where the kernel does not tell (another's file, NFS).

    The kernel grants a read lease only when no process has. It is returned at once. If the file is opened in between,
    the kernel tells us by a signal, which must not be SIGIO, since that ends a process that does not expect it.
    """
    try:
        import fcntl
        import signal

        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError, ImportError):  # Windows has no such module
        return None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _same_again(fd: int, chunks: List[str]) -> bool:
    for index, name in enumerate(chunks):
        if chunk_id(_read_full(fd, index * CHUNK_SIZE, CHUNK_SIZE)) != name:
            return False
    return not read_at(fd, 1, len(chunks) * CHUNK_SIZE)


def _read_full(fd: int, offset: int, length: int) -> bytes:
    """Return `length` bytes, fewer only at the end of the file: a short read must not shift the chunk borders."""
    data = read_at(fd, length, offset)
    while data and len(data) < length:
        more = read_at(fd, length - len(data), offset + len(data))
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
