"""Where the lines of a log are: newlines counted once per 64 KiB, as far as somebody asked, kept for logs in use."""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import anyio

BLOCK = 64 << 10
PIECE = 64 * BLOCK  # read at once
MOST_BLOCKS = 4 << 20  # of all indexes together: 32 MiB, for 256 GiB of logs
MOST_INDEXES = 1000
MOST_THREADS = 4  # whoever reads a log of 1 GB must not hold up the rest of the server


@dataclass(frozen=True)
class Source:
    """A log as it is at one moment: later growth does not show."""

    key: str  # the same for the same bytes, which only grow
    size: int
    read: Callable[[int, int], bytes]  # (offset, length)


class Budget:
    """How long one answer may take. The first step is always free, so that whoever asks again comes to an end."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + seconds

    @property
    def is_spent(self) -> bool:
        return self._clock() >= self._until


class LineIndex:
    """Newlines before each whole block of one log. Shared between threads."""

    def __init__(self) -> None:
        self._before = array("Q", [0])
        self._lock = threading.Lock()

    @property
    def blocks(self) -> int:
        return len(self._before) - 1

    def grow(self, source: Source, budget: Budget, *, to_line: int | None = None) -> bool:
        """Count on, to the end or until `to_line` begins in what is counted; return whether that was reached."""
        while not self._reaches(source, to_line):
            with self._lock:  # for one piece: who asks for less must not wait for who asks for all
                if not self._reaches(source, to_line):
                    self._count_piece(source)
            if budget.is_spent:
                break
        return self._reaches(source, to_line)

    def find_start(self, source: Source, line: int) -> int | None:
        """Return where line `line` (from 1) begins; None when what is counted has fewer lines."""
        wanted = line - 1  # newlines before it
        if wanted <= 0:
            return 0
        block = bisect_left(self._before, wanted) - 1
        start = block * BLOCK
        left = wanted - self._before[block]
        data = source.read(start, max(0, min(BLOCK, source.size - start)))  # another thread may know a longer log
        at = -1
        while left:
            at = data.find(b"\n", at + 1)
            if at < 0:
                return None
            left -= 1
        return start + at + 1

    def count_to(self, source: Source, offset: int) -> int | None:
        """Return the newlines before `offset`; None when it is not counted that far."""
        block = min(offset // BLOCK, self.blocks)
        start = block * BLOCK
        if offset - start > BLOCK:
            return None
        return self._before[block] + source.read(start, offset - start).count(b"\n")

    def count_lines(self, source: Source) -> int | None:
        """Return how many lines there are, an unfinished last one too; None while not all is counted."""
        newlines = self.count_to(source, source.size)
        if newlines is None or not source.size:
            return newlines
        return newlines + (source.read(source.size - 1, 1) != b"\n")

    def _reaches(self, source: Source, line: int | None) -> bool:
        return self.blocks >= source.size // BLOCK or (line is not None and self._before[-1] >= line - 1)

    def _count_piece(self, source: Source) -> None:
        start = self.blocks * BLOCK
        data = source.read(start, min(PIECE, source.size // BLOCK * BLOCK - start))
        count = self._before[-1]
        for at in range(0, len(data) - BLOCK + 1, BLOCK):
            count += data.count(b"\n", at, at + BLOCK)
            self._before.append(count)
        if len(data) < BLOCK:
            raise EOFError(f"the log {source.key} ends before its size")


class LineIndexes:
    """The indexes of logs that were looked at last. Shared between threads."""

    def __init__(self, most_blocks: int = MOST_BLOCKS) -> None:
        self.threads = anyio.CapacityLimiter(MOST_THREADS)  # for all that reads logs by lines
        self._most_blocks = most_blocks
        self._lock = threading.Lock()
        self._by_key: OrderedDict[str, LineIndex] = OrderedDict()

    def get(self, source: Source) -> LineIndex:
        with self._lock:
            found = self._by_key.get(source.key)
            if found is None:
                found = self._by_key[source.key] = LineIndex()
            self._by_key.move_to_end(source.key)
            while len(self._by_key) > 1 and self._is_over():
                self._by_key.popitem(last=False)
            return found

    def __len__(self) -> int:
        return len(self._by_key)

    def _is_over(self) -> bool:
        held = sum(index.blocks for index in self._by_key.values())
        return held > self._most_blocks or len(self._by_key) > MOST_INDEXES
