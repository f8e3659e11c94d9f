"""One journal file that is open for appending, and the name ids that hold in it."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from typing import Any, Callable, Dict, Tuple, Type

from runyard.core.formats import journal

Write = Callable[[int, bytes], int]
Entry = Tuple[int, int]  # file descriptor and name id: always of the same segment, whatever happens between

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_HIGH_NUMBERS = (960, 240)


class Names(Dict[str, Entry]):
    """Where each name is logged. It does not travel: joblib and Ray pickle functions with all that they refer to, and a
    descriptor's number means another file, or none, in the process that unpickles it."""

    def __reduce__(self) -> Tuple[Type[Names], Tuple[()]]:
        return Names, ()


class Segment:
    """Raises OSError from every method; `write` may be short, and then the segment must not be used again."""

    def __init__(self, folder: str, writer: str, number: int, *, write: Write) -> None:
        self.writer = writer
        self.number = number
        self.path = f"{folder}/{writer}.{number}.journal"
        self.fd = _high(os.open(self.path, _FLAGS, 0o600))
        self.names = Names()
        self.torn = False
        self._ids = itertools.count(1)
        self._sides = itertools.count()
        self._write = write

    def begin(self, header: Dict[str, Any]) -> None:
        """Write the first record. When the disk is full the empty file stays, and this is called again; so it is when a
        signal's handler raised just after the write.
        """
        if os.fstat(self.fd).st_size == 0:
            self._write_whole(journal.pack_long(journal.HEADER, header))

    def entry(self, name: str) -> Entry:
        """Return where and under which id `name` is logged, after its definition was written."""
        found = self.names.get(name)
        if found is None:
            found = (self.fd, next(self._ids))
            self._write_whole(journal.pack_long(journal.NAME, {"id": found[1], "name": name}))
            self.names[name] = found
        return found

    def write(self, data: bytes) -> int:
        return self._write(self.fd, data)

    def side_path(self) -> str:
        """Return a new path for a payload that is too large for a record."""
        return f"{self.path[: -len('.journal')]}.{next(self._sides)}.side"

    def disown(self) -> None:
        """In a forked child: if interrupted code still defines a name here, its id must not be one of the parent's."""
        self._ids = itertools.count(1 << 31 | int.from_bytes(os.urandom(4), "little") >> 2)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def _write_whole(self, data: bytes) -> None:
        if self._write(self.fd, data) != len(data):
            self.torn = True
            raise OSError(errno.EIO, "short write", self.path)


def _high(fd: int) -> int:
    """Move the descriptor where nobody else's is: a program that closes all of its files and opens others must not
    find its own file under the number that we write to."""
    for lowest in _HIGH_NUMBERS:
        try:
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:  # the limit of open files is below
            continue
        os.close(fd)
        return moved
    return fd
