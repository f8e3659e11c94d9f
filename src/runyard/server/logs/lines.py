"""Lines of a log by their numbers: the index of newlines, the text of a line, and pages of lines.

The index counts newlines once per 64 KiB, as far as a request needed it, and is kept for logs in use. Lines read as a
terminal would leave them: the last state of a progress bar, and no colours in searched text. Pages count lines from 1,
or from the end before all lines are counted.
"""

from __future__ import annotations

import re
import threading
import time
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import anyio

BLOCK = 64 << 10
PIECE = 64 * BLOCK  # read at once
MOST_BLOCKS = 4 << 20  # of all indexes together: 32 MiB, for 256 GiB of logs
MOST_INDEXES = 1000
MOST_THREADS = 4  # a reader of a 1 GB log must not hold up the rest of the server
# Colours, cursor moves, titles and links. Each alternative ends where the next escape begins, so it is linear.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\-~]?)")
_RETURNS = re.compile(rb"\r\r+")
OVERLAP = 4096  # bytes of a line longer than a piece that are seen twice, for what lies on the border
MOST_LINES = 2000
LONGEST_LINE = 4000  # characters
LONGEST_WHOLE = 1 << 20
ANSWER_BYTES = 1 << 20  # an answer has fewer lines than asked for rather than many more bytes
READ = 256 << 10


@dataclass(frozen=True)
class LogSource:
    """A log as it is at one moment: later growth does not show."""

    key: str  # the same for the same bytes, which only grow
    size: int
    read: Callable[[int, int], bytes]  # (offset, length)


class Budget:
    """How long one answer may take. The first step is always free, so that repeated requests come to an end."""

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

    def grow(self, source: LogSource, budget: Budget, *, to_line: int | None = None) -> bool:
        """Count on, to the end or until `to_line` begins in what is counted; return whether that was reached."""
        while not self._reaches(source, to_line):
            with self._lock:  # for one piece: a short request must not wait for a long one
                if not self._reaches(source, to_line):
                    self._count_piece(source)
            if budget.is_spent:
                break
        return self._reaches(source, to_line)

    def find_start(self, source: LogSource, line: int) -> int | None:
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

    def count_to(self, source: LogSource, offset: int) -> int | None:
        """Return the newlines before `offset`; None when it is not counted that far."""
        block = min(offset // BLOCK, self.blocks)
        start = block * BLOCK
        if offset - start > BLOCK:
            return None
        return self._before[block] + source.read(start, offset - start).count(b"\n")

    def count_lines(self, source: LogSource) -> int | None:
        """Return how many lines there are, an unfinished last one too; None while not all is counted."""
        newlines = self.count_to(source, source.size)
        if newlines is None or not source.size:
            return newlines
        return newlines + (source.read(source.size - 1, 1) != b"\n")

    def _reaches(self, source: LogSource, line: int | None) -> bool:
        return self.blocks >= source.size // BLOCK or (line is not None and self._before[-1] >= line - 1)

    def _count_piece(self, source: LogSource) -> None:
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

    def get(self, source: LogSource) -> LineIndex:
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


class Folding:
    """One line that comes in parts: keeps what stands after the last carriage return, at most `most` bytes of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()
        self._returned = False
        self.is_cut = False

    def feed(self, part: bytes) -> None:
        text = part.rstrip(b"\r")
        if text:
            at = text.rfind(b"\r")
            if at >= 0 or self._returned:
                self._kept.clear()
                self.is_cut = False
            self._add(text[at + 1 :] if len(text) - at - 1 <= self._most else text[at + 1 : at + 2 + self._most])
            self._returned = False
        if len(text) < len(part):
            self._returned = True

    def take(self, longest: int) -> str:
        """Return the line's text, at most `longest` characters, and begin the next one."""
        text = self._kept.decode("utf-8", "replace")
        if len(text) > longest:
            text, self.is_cut = text[:longest], True
        self._kept.clear()
        self._returned = False
        return text

    def _add(self, text: bytes) -> None:
        room = self._most - len(self._kept)
        self.is_cut = self.is_cut or len(text) > room
        self._kept += text[:room]


def plain_text(data: bytes) -> bytes:
    """Return whole lines without escapes and without what carriage returns wrote over. Newlines stay where they are."""
    if b"\x1b" in data:
        data = _ESCAPES.sub(b"", data)
    if b"\r" not in data:
        return data
    parts = _RETURNS.sub(b"\r", data).replace(b"\r\n", b"\n").split(b"\r")
    kept = [
        part[: part.rfind(b"\n") + 1] if after and not after.startswith(b"\n") else part
        for part, after in zip(parts, parts[1:])
    ]
    return b"".join([*kept, parts[-1]])


def iter_whole_lines(source: LogSource, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield `(offset, bytes)`: pieces that end with a line's end, or at the log's end; `start` begins a line.

    A line longer than two pieces comes in several, of which all but the last hold no newline; they overlap.
    """
    held = b""
    at = start
    while at + len(held) < source.size:
        read_at = at + len(held)
        held += source.read(read_at, min(PIECE, source.size - read_at))
        if at + len(held) >= source.size:
            break
        end = held.rfind(b"\n") + 1
        if end:
            yield at, held[:end]
            at, held = at + end, held[end:]
        elif len(held) >= 2 * PIECE:
            yield at, held
            at, held = at + len(held) - OVERLAP, held[-OVERLAP:]
    if held:
        yield at, held


@dataclass
class Lines:
    """Some lines. `first` is the number of the first one; negative, counted from the end, while `total` is None."""

    first: int
    total: int | None
    lines: list[str] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)  # positions in `lines` whose text goes on


def read_lines(
    source: LogSource, index: LineIndex, *, first: int, count: int, budget: Budget, longest: int = LONGEST_LINE
) -> Lines:
    """Return up to `count` lines from line `first`; negative: from the end. Fewer where budget or answer end."""
    if index.grow(source, budget, to_line=first + count if first > 0 and count else None):
        index.grow(source, Budget(0))  # one piece more, so that `total` is known of a log that grew
    total = index.count_lines(source)
    if first < 0:
        if total is None:
            return _from_the_end(source, count=min(count, -first), back=-first, longest=longest)
        first = max(1, total + 1 + first)
    first = max(1, first)
    start = index.find_start(source, first)
    found = Lines(first, total)
    if start is not None and count:
        _read_from(source, index, start, found, count=count, longest=longest)
    return found


def _read_from(source: LogSource, index: LineIndex, start: int, found: Lines, *, count: int, longest: int) -> None:
    """Append lines from byte `start` on. Of a very long line the beginning and the end are read."""
    folding = Folding(longest * 4)
    at = line_start = start
    taken = 0
    while at < source.size and len(found.lines) < count and taken < ANSWER_BYTES:
        data = source.read(at, min(READ, source.size - at))
        parts = data.split(b"\n", count - len(found.lines))
        ends_at = at
        for part in parts[:-1]:
            folding.feed(part)
            taken += _take(found, folding, longest)
            ends_at += len(part) + 1
            line_start = ends_at
            if taken >= ANSWER_BYTES:
                return
        at += len(data)
        if len(found.lines) < count:
            folding.feed(parts[-1])
            if at - line_start > PIECE:
                at = max(at, _end_of(source, index, found) - PIECE)
    if line_start < source.size and len(found.lines) < count:
        _take(found, folding, longest)


def _end_of(source: LogSource, index: LineIndex, found: Lines) -> int:
    """Return where the line after those found ends; 0 when it is not known yet."""
    end = index.find_start(source, found.first + len(found.lines) + 1)
    if end is not None:
        return end
    return 0 if found.total is None else source.size


def _take(found: Lines, folding: Folding, longest: int) -> int:
    text = folding.take(longest)
    if folding.is_cut:
        found.cut.append(len(found.lines))
        folding.is_cut = False
    found.lines.append(text)
    return len(text) + 1


def _from_the_end(source: LogSource, *, count: int, back: int, longest: int) -> Lines:
    """Return lines counted from the end; of lines so long that few fit into a piece, those that do."""
    length = 64 << 10
    while True:
        start = max(0, source.size - length)
        data = source.read(start, source.size - start)
        if start == 0 or length >= PIECE or data.count(b"\n") > back:
            break
        length *= 4
    parts = data.split(b"\n")
    if not parts[-1]:
        parts.pop()
    if start and len(parts) > 1:
        parts.pop(0)  # its beginning is not there
    chosen = parts[-back:]
    found = Lines(-len(chosen), None)
    folding = Folding(longest * 4)
    for part in chosen[:count]:
        folding.feed(part)
        _take(found, folding, longest)
    return found
