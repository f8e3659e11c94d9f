"""The files of a run folder for the case of a full disk, shared by the run's processes and their supervisor."""

from __future__ import annotations

import errno
import struct
from typing import Iterator, NamedTuple

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
RESERVE = "reserve"  # a file that is removed to make room for what must be written on a full disk
END_RESERVE = "reserve.end"  # the same for the run's end: no process of the run can use up its space
OVERFLOW = "overflow"  # a link to a folder in memory, made when the disk is full
MEMORY = "/dev/shm"  # where that folder is made
IN_MEMORY = "runyard-"  # begins its name
WAITING = "journal/waiting"  # cells that are written in place
COUNTS = 64
_CELL = struct.Struct("<28sIQQQQ")
COUNT_BYTES = _CELL.size
OUTPUT = "out-"  # begins the owner of a cell that counts bytes printed, not records


class Count(NamedTuple):
    """What one writer holds in memory alone, and what it had to drop. `code`: the errno that made it so."""

    owner: str
    code: int
    waiting: int
    waiting_numbers: int
    lost: int
    lost_numbers: int

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.lost


def pack_count(count: Count) -> bytes:
    owner = b"" if count.is_empty else count.owner.encode("ascii", "replace")
    return _CELL.pack(owner, count.code, count.waiting, count.waiting_numbers, count.lost, count.lost_numbers)


def iter_counts(data: bytes) -> Iterator[Count]:
    """Yield the cells in use."""
    whole = len(data) // COUNT_BYTES * COUNT_BYTES
    for owner, *numbers in _CELL.iter_unpack(data[:whole]):
        count = Count(owner.rstrip(b"\0").decode("ascii", "replace"), *numbers)
        if not count.is_empty:
            yield count


def owner_of(cell: bytes) -> str:
    return cell[:28].rstrip(b"\0").decode("ascii", "replace")
