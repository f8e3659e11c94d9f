"""Journal segments on disk: how far each was shipped and what comes next."""

from __future__ import annotations

import errno
import os
import re
import struct
from dataclasses import field
from typing import Any, Dict, Iterator, List, Optional, Tuple

from runyard.core import journal
from runyard.core.later import dataclass

Key = Tuple[str, int]

_NAME = re.compile(r"([a-z0-9][a-z0-9\-]{0,63})\.(\d{1,9})\.journal")
_ACKED = struct.Struct("<Q")
_HEADER_BYTES = 1 << 16
_UNREADABLE = (errno.ELOOP, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENXIO)


@dataclass()
class Segment:
    """One journal file. `offset` is the server's word: bytes before it are stored."""

    path: str
    writer: str
    number: int
    offset: int = 0
    size: int = 0
    end: Optional[int] = None  # after the last whole record, known once everything was read
    header: Dict[str, Any] = field(default_factory=dict)
    failures: int = 0
    is_given_up: bool = False
    skipped: List[Tuple[int, int]] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return (self.writer, self.number)

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_behind(self) -> bool:
        return not self.is_given_up and self.offset < (self.size if self.end is None else self.end)

    def look(self) -> None:
        """Take the file's size; a new one means that there is more to read."""
        size = os.stat(self.path, follow_symlinks=False).st_size
        if size != self.size:
            self.size, self.end = size, None
        if not self.header and size:
            self.header = read_header(self.path)

    def moved(self, offset: int) -> None:
        """The server holds everything before `offset`: tell the writer, who may wait for it in `flush`."""
        self.end = None
        if offset == self.offset:
            return
        self.offset, self.failures = offset, 0
        try:
            self._write_acked(offset)
        except OSError:  # a full disk: the next answer writes it
            pass

    def read(self, limit: int) -> bytes:
        """Return up to `limit` bytes from `offset` on; records given up on read as ones that say nothing."""
        data = read_part(self.path, self.offset, limit)
        for start, end in self.skipped:
            at = start - self.offset
            if 0 <= at < len(data):
                data = data[:at] + silence(end - start) + data[end - self.offset :]
        return data

    def _write_acked(self, offset: int) -> None:
        path = self.path[: -len("journal")] + "acked"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(fd, _ACKED.pack(offset), 0)
        finally:
            os.close(fd)


def iter_segments(folder: str) -> Iterator[Segment]:
    """Yield the segments in a journal folder, those of one writer in order."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    matches = [match for match in map(_NAME.fullmatch, names) if match]
    for match in sorted(matches, key=lambda one: (one.group(1), int(one.group(2)))):
        path = os.path.join(folder, match.group())
        yield Segment(path, match.group(1), int(match.group(2)))


def read_acked(segment: Segment) -> int:
    """Return what an earlier supervisor noted; the server's next answer corrects it."""
    try:
        return int(_ACKED.unpack(read_part(segment.path[: -len("journal")] + "acked", 0, _ACKED.size))[0])
    except (OSError, struct.error):
        return 0


def read_header(path: str) -> Dict[str, Any]:
    for part in journal.iter_parts(read_part(path, 0, _HEADER_BYTES)):
        return part.payload if isinstance(part, journal.LongRecord) and part.kind == journal.HEADER else {}
    return {}


def read_part(path: str, offset: int, limit: int) -> bytes:
    """Read a file that the program also has its hands on: links are not followed, a FIFO does not block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.pread(fd, limit, offset)
    finally:
        os.close(fd)


def is_unreadable(error: OSError) -> bool:
    """Whether the program made something of its file that nobody can read; other faults of a disk may pass."""
    return error.errno in _UNREADABLE


def silence(size: int) -> bytes:
    """Return a record of `size` bytes that changes nothing, to stand for one that the server cannot take."""
    body = b'{"set":{}}'
    return journal.pack_payload(journal.TAGS, body + b" " * (size - journal.HEAD.size - len(body)))
