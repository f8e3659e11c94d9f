"""Records that could not be written yet: they wait in memory, up to a limit."""

from __future__ import annotations

from collections import deque
from typing import Deque, Iterable

from runyard.runtime.records import Cell, Record, Side

LIMIT_BYTES = 64 << 20
_CELL_BYTES = 200  # what a waiting number costs in memory


class Backlog:
    """A queue of records. Threads share it without a lock: each step is one call into a deque."""

    def __init__(self) -> None:
        self._records: Deque[Record] = deque()
        self._size = 0
        self.numbers = 0  # how many of the records are numbers
        self.lost = self.lost_numbers = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> bool:
        """Return whether there was room."""
        size = _size_of(record)
        if self._size + size > LIMIT_BYTES:
            self.lost += 1
            self.lost_numbers += isinstance(record, Cell)
            return False
        self._size += size
        self.numbers += isinstance(record, Cell)
        self._records.append(record)
        return True

    def take(self, count: int) -> Deque[Record]:
        """Remove and return up to `count` of the oldest."""
        taken: Deque[Record] = deque()
        while len(taken) < count:
            try:
                taken.append(self._records.popleft())
            except IndexError:
                break
        self._size -= size_of(taken)
        self.numbers -= _count_numbers(taken)
        return taken

    def put_back(self, records: Deque[Record]) -> None:
        self._size += size_of(records)
        self.numbers += _count_numbers(records)
        self._records.extendleft(reversed(records))


def size_of(records: Iterable[Record]) -> int:
    """Return about how much memory the records take."""
    return sum(map(_size_of, records))


def _count_numbers(records: Iterable[Record]) -> int:
    return sum(isinstance(record, Cell) for record in records)


def _size_of(record: Record) -> int:
    if isinstance(record, Cell):
        return _CELL_BYTES
    return len(record.body if isinstance(record, Side) else record) + 100
