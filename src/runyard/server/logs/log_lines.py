"""Lines of a log by their numbers, from 1; or counted from the end, which is there before all lines are counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from runyard.server.logs.lines import PIECE, Budget, LineIndex, Source
from runyard.server.logs.log_text import Folding

MOST_LINES = 2000
LONGEST_LINE = 4000  # characters
LONGEST_WHOLE = 1 << 20
ANSWER_BYTES = 1 << 20  # an answer has fewer lines than asked for rather than many more bytes
READ = 256 << 10


@dataclass
class Lines:
    """Some lines. `first` is the number of the first one; negative, counted from the end, while `total` is None."""

    first: int
    total: int | None
    lines: list[str] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)  # positions in `lines` whose text goes on


def read_lines(
    source: Source, index: LineIndex, *, first: int, count: int, budget: Budget, longest: int = LONGEST_LINE
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


def _read_from(source: Source, index: LineIndex, start: int, found: Lines, *, count: int, longest: int) -> None:
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


def _end_of(source: Source, index: LineIndex, found: Lines) -> int:
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


def _from_the_end(source: Source, *, count: int, back: int, longest: int) -> Lines:
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
