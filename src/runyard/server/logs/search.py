"""Search a log for text or for errors, piece by piece.

A search stops at the time limit of one answer and continues with the next request. It takes plain text only: a regular
expression from outside could keep the server busy for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from runyard.core.formats.error_lines import HINTS, find_sign
from runyard.server.logs.lines import OVERLAP, Budget, LogSource, iter_whole_lines, plain_text

LONGEST_TEXT = 500  # characters of what is looked for
MOST_HITS = 5000
EXCERPT = 200  # bytes
_WORD = re.compile(r"\w")


@dataclass(frozen=True)
class SearchRequest:
    text: str
    case: bool = False
    word: bool = False


@dataclass
class SearchProgress:
    """How far a search came: through line `line`, and where it goes on; `done` at the log's end."""

    line: int
    offset: int
    done: bool = False


@dataclass
class Hits:
    progress: SearchProgress
    lines: list[int] = field(default_factory=list)
    excerpts: list[str] = field(default_factory=list)


@dataclass
class FirstError:
    """The first line that tells of an error. One that is not sure counts when nothing sure follows."""

    progress: SearchProgress
    line: int | None = None
    text: str = ""
    kind: str = ""
    is_sure: bool = False


def search(source: LogSource, wanted: SearchRequest, progress: SearchProgress, *, limit: int, budget: Budget) -> Hits:
    """Return lines beyond `progress` that hold the text; the unfinished last line is searched as it is now.

    A line may come once more after a break within it.
    """
    hits = Hits(progress)
    for piece in _iter_pieces(source, progress, budget):
        for row, excerpt in _find(plain_text(piece.data), wanted):
            number = piece.line + row
            if hits.lines and hits.lines[-1] == number:
                continue  # the next part of a very long line
            if len(hits.lines) == limit:
                _stop_after(progress, piece, hits.lines[-1])
                return hits
            hits.lines.append(number)
            hits.excerpts.append(excerpt)
    return hits


def find_first_error(source: LogSource, progress: SearchProgress, *, budget: Budget) -> FirstError:
    found = FirstError(progress)
    for piece in _iter_pieces(source, progress, budget):
        for row, text in _iter_hinted(plain_text(piece.data)):
            sign = find_sign(text)
            if sign is None or (found.line is not None and not sign.is_sure):
                continue
            found.line, found.text, found.kind, found.is_sure = piece.line + row, text[:1000], sign.kind, sign.is_sure
            if sign.is_sure:
                _stop_after(progress, piece, found.line)
                return found
    return found


@dataclass(frozen=True)
class _LinePiece:
    line: int  # number of its first line
    offset: int
    data: bytes


def _iter_pieces(source: LogSource, progress: SearchProgress, budget: Budget) -> Iterator[_LinePiece]:
    """Yield what follows `progress`, which moves on when a piece was dealt with."""
    progress.done = progress.offset >= source.size
    for offset, data in iter_whole_lines(source, progress.offset):
        yield _LinePiece(progress.line + 1, offset, data)
        progress.line += data.count(b"\n")
        end = offset + len(data)
        progress.done = end >= source.size
        if data.endswith(b"\n"):
            progress.offset = end
        elif progress.done:
            progress.offset = offset + data.rfind(b"\n") + 1  # it may grow: from its beginning again
        else:
            progress.offset = end - OVERLAP
        if budget.is_spent:
            return


def _stop_after(progress: SearchProgress, piece: _LinePiece, line: int) -> None:
    """Let a search go on after a line of a piece that is not dealt with to its end."""
    at = -1
    for _ in range(line - piece.line + 1):
        at = piece.data.find(b"\n", at + 1)
        if at < 0:  # it has no end here
            progress.line, progress.offset = line - 1, piece.offset + len(piece.data)
            return
    progress.line, progress.offset = line, piece.offset + at + 1


def _find(data: bytes, wanted: SearchRequest) -> Iterator[tuple[int, str]]:
    """Yield `(row, excerpt)` of rows that hold the text."""
    if wanted.case:
        yield from _find_in(data, data, wanted.text.encode("utf-8", "replace"), wanted)
    elif wanted.text.isascii():
        yield from _find_in(data, data.lower(), wanted.text.lower().encode(), wanted)
    elif not data.isascii():
        lowered = data.decode("utf-8", "replace").lower().encode("utf-8", "replace")
        yield from _find_in(lowered, lowered, wanted.text.lower().encode("utf-8", "replace"), wanted)


def _find_in(shown: bytes, data: bytes, text: bytes, wanted: SearchRequest) -> Iterator[tuple[int, str]]:
    row = counted = 0
    at = data.find(text)
    while at >= 0:
        if wanted.word and not _is_word(data, at, at + len(text)):
            at = data.find(text, at + 1)
            continue
        row += data.count(b"\n", counted, at)
        end = data.find(b"\n", at)
        begin = max(data.rfind(b"\n", 0, at) + 1, at - EXCERPT // 2)
        stop = min(begin + EXCERPT, len(data) if end < 0 else end)
        yield row, shown[begin:stop].decode("utf-8", "replace")
        if end < 0:
            return
        counted = end
        at = data.find(text, end)


def _is_word(data: bytes, start: int, end: int) -> bool:
    """Whether no letter or digit touches what was found; where it begins with none itself, anything may stand there."""
    before = data[max(0, start - 4) : start].decode("utf-8", "ignore")[-1:]
    after = data[end : end + 4].decode("utf-8", "ignore")[:1]
    found = data[start:end].decode("utf-8", "ignore")
    return not (_WORD.match(before) and _WORD.match(found[:1])) and not (_WORD.match(after) and _WORD.match(found[-1:]))


def _iter_hinted(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield `(row, text)` of rows that may tell of an error, in their order."""
    starts: set[int] = set()
    for hint in HINTS:
        at = data.find(hint)
        while at >= 0:
            starts.add(data.rfind(b"\n", 0, at) + 1)
            end = data.find(b"\n", at)
            at = data.find(hint, end) if end >= 0 else -1
    row = counted = 0
    for start in sorted(starts):
        row += data.count(b"\n", counted, start)
        counted = start
        end = data.find(b"\n", start)
        yield row, data[start : len(data) if end < 0 else end].decode("utf-8", "replace")
