"""Logs by lines: numbers, folding, long lines, growth, search and the first error, on bytes in memory."""

from __future__ import annotations

import random

import pytest

from runyard.core.formats.error_lines import HINTS, find_sign
from runyard.server.logs.lines import (
    BLOCK,
    LONGEST_LINE,
    PIECE,
    Budget,
    LineIndex,
    LineIndexes,
    Lines,
    LogSource,
    plain_text,
    read_lines,
)
from runyard.server.logs.search import Hits, SearchProgress, SearchRequest, find_first_error, search


def source_of(data: bytes, key: str = "log") -> LogSource:
    return LogSource(key, len(data), lambda offset, length: data[offset : offset + length])


def lines_of(data: bytes, *, first: int = 1, count: int = 2000, longest: int = LONGEST_LINE) -> Lines:
    return read_lines(source_of(data), LineIndex(), first=first, count=count, budget=Budget(60), longest=longest)


TEXTS = {
    "no bytes": (b"", []),
    "one line": (b"a\n", ["a"]),
    "no final newline": (b"a\nb", ["a", "b"]),
    "empty lines": (b"\n\na\n", ["", "", "a"]),
    "CRLF": (b"a\r\nb\r\n\r\n", ["a", "b", ""]),
    "a progress bar": (b" 10%\r 50%\r100%\ndone\n", ["100%", "done"]),
    "a bar that goes on": (b"x\n 10%\r 50%\r", ["x", " 50%"]),
    "a bar that was wiped": (b"50%\r   \r\nnext\n", ["   ", "next"]),
    "CR before CRLF": (b"a\r\r\nb\n", ["a", "b"]),
    "not UTF-8": (b"\xff\xfeok \xe2\x82\xac\n", ["\ufffd\ufffdok \u20ac"]),
    "control characters": (b"\x00\x1b[31mred\x1b[0m\x07\n", ["\x00\x1b[31mred\x1b[0m\x07"]),
    "other line separators": ("a\u2028b\x0bc\x0cd\x85e\n".encode(), ["a\u2028b\x0bc\x0cd\x85e"]),
}


@pytest.mark.parametrize(("data", "expected"), TEXTS.values(), ids=TEXTS.keys())
def test_lines_are_what_a_terminal_would_leave(data: bytes, expected: list[str]) -> None:
    found = lines_of(data)

    assert (found.first, found.total, found.lines, found.cut) == (1, len(expected), expected, [])


def test_any_window_of_a_log_of_many_blocks_has_its_lines() -> None:
    draw = random.Random(5)
    rows = [f"{number}:{'x' * draw.choice([0, 3, 80, 900])}" for number in range(1, 8001)]
    source, index = source_of("\n".join(rows).encode()), LineIndex()
    assert source.size > 20 * BLOCK

    for first, count in [(1, 10), (7999, 50), (4000, 1500), (8000, 1), (8001, 5), (2, 0), (0, 1)]:
        found = read_lines(source, index, first=first, count=count, budget=Budget(60))
        assert (found.first, found.total) == (max(1, first), 8000)
        assert found.lines == rows[max(1, first) - 1 :][:count][: len(found.lines)]
        assert len(found.lines) == min(count, 8001 - max(1, first)) or sum(map(len, found.lines)) >= 1 << 20
    for first in (-1, -7, -8000, -9999):
        found = read_lines(source, index, first=first, count=5, budget=Budget(60))
        assert found.lines == rows[max(0, 8000 + first) :][:5] and found.first == max(1, 8001 + first)


def test_the_end_is_shown_before_the_lines_are_counted() -> None:
    data = b"".join(b"%d\n" % number for number in range(1, 2_000_001))
    source, index = source_of(data), LineIndex()

    early = read_lines(source, index, first=-3, count=3, budget=Budget(0))
    calls = 1
    while read_lines(source, index, first=1, count=0, budget=Budget(0)).total is None:
        calls += 1
    late = read_lines(source, index, first=-3, count=3, budget=Budget(0))

    assert len(data) > 3 * PIECE and (early.first, early.total) == (-3, None)
    assert early.lines == late.lines == ["1999998", "1999999", "2000000"]
    assert (late.first, late.total) == (1_999_998, 2_000_000) and calls < 5


@pytest.mark.parametrize("size", [10_000_000, 30_000_000])
def test_of_a_very_long_line_the_beginning_is_shown_and_the_rest_left_out(size: int) -> None:
    data = b"before\n" + "\u00e4".encode() * (size // 2) + b"\nafter\n"
    reads: list[int] = []

    def read(offset: int, length: int) -> bytes:
        reads.append(length)
        return data[offset : offset + length]

    source = LogSource("log", len(data), read)
    index = LineIndex()
    assert index.grow(source, Budget(60))
    reads.clear()
    found = read_lines(source, index, first=1, count=9, budget=Budget(60))

    assert found.lines == ["before", "\u00e4" * LONGEST_LINE, "after"] and found.cut == [1]
    assert sum(reads) < 3 * PIECE
    whole = read_lines(source, index, first=2, count=1, budget=Budget(60), longest=5000)
    assert whole.lines == ["\u00e4" * 5000] and whole.cut == [0]


def test_of_a_very_long_progress_bar_the_last_state_is_shown() -> None:
    data = b"a\n" + b"".join(b"%9d it\r" % number for number in range(1_500_000)) + b"\nb"

    assert lines_of(data).lines == ["a", "  1499999 it", "b"]


def test_an_answer_with_long_lines_has_fewer_of_them() -> None:
    found = lines_of((b"x" * 3000 + b"\n") * 2000)

    assert found.total == 2000 and 1 << 20 <= sum(len(line) + 1 for line in found.lines) < (1 << 20) + 3001


def test_lines_that_come_between_two_calls_are_counted_on() -> None:
    data = b"".join(b"line %d\n" % number for number in range(30_000)) + b"open"
    index = LineIndex()
    first = read_lines(source_of(data), index, first=-1, count=1, budget=Budget(60))
    data += b" and closed\n" + b"more\n" * 40_000
    second = read_lines(source_of(data), index, first=first.total or 0, count=2, budget=Budget(60))

    assert (first.lines, first.total) == (["open"], 30_001)
    assert (second.lines, second.total) == (["open and closed", "more"], 70_001)
    again = read_lines(source_of(data[: 5 * BLOCK]), index, first=-1, count=1, budget=Budget(60))
    assert again.total == data[: 5 * BLOCK].count(b"\n") + 1  # of who looked before the others did


def test_indexes_that_were_not_used_go_first() -> None:
    indexes = LineIndexes(most_blocks=4)
    sources = [source_of(b"\n" * (2 * BLOCK), str(number)) for number in range(3)]
    held = []
    for source in sources:
        held.append(indexes.get(source))
        held[-1].grow(source, Budget(60))

    assert indexes.get(sources[2]) is held[2] and len(indexes) == 2
    assert indexes.get(sources[1]) is held[1] and indexes.get(sources[0]) is not held[0]


def search_all(data: bytes, wanted: SearchRequest, *, limit: int = 5000, seconds: float = 60) -> list[int]:
    """Ask until it is done; each answer begins where the one before ended."""
    source, progress, found = source_of(data), SearchProgress(0, 0), list[int]()
    while True:
        hits = search(source, wanted, progress, limit=limit, budget=Budget(seconds))
        assert len(hits.lines) == len(hits.excerpts) <= limit
        found += [line for line in hits.lines if not found or line > found[-1]]
        if progress.done:
            return found


SEARCHED = b"Loss 1\nloss 2\nLOSS\x1b[31m 3\x1b[0m\nfloss\n 10% loss\r 20%\nstra\xc3\x9fe \xc3\x84\nlo\x1b[1mss_5\nloss"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (SearchRequest("loss"), [1, 2, 3, 4, 7, 8]),
        (SearchRequest("loss", case=True), [2, 4, 7, 8]),
        (SearchRequest("loss", word=True), [1, 2, 3, 8]),
        (SearchRequest("LOSS 3", case=True), [3]),
        (SearchRequest("\u00e4"), [6]),
        (SearchRequest("\u00e4", case=True), []),
        (SearchRequest("STRA\u1e9e"), [6]),
        (SearchRequest("10%"), []),
        (SearchRequest("loss.*"), []),
    ],
    ids=str,
)
def test_search_finds_what_is_shown(wanted: SearchRequest, expected: list[int]) -> None:
    assert search_all(SEARCHED, wanted) == expected


def test_a_search_in_small_steps_finds_the_same_lines_as_in_one() -> None:
    draw = random.Random(3)
    rows = [b"needle" if draw.random() < 0.01 else b"x" * draw.randrange(200) for _ in range(120_000)]
    data = b"\n".join(rows)
    expected = [number for number, row in enumerate(rows, 1) if row == b"needle"]

    assert len(data) > 2 * PIECE and len(expected) > 1000
    assert search_all(data, SearchRequest("needle")) == expected
    assert search_all(data, SearchRequest("needle"), seconds=0) == expected
    assert search_all(data, SearchRequest("needle"), limit=7) == expected


def test_a_hit_on_the_border_of_two_pieces_of_a_long_line_is_found_once() -> None:
    data = bytearray(b"first\n" + b"x" * (5 * PIECE) + b"\nneedle\n")
    for at in range(PIECE - 2, 5 * PIECE, PIECE - 4096):
        data[at : at + 6] = b"needle"

    assert search_all(bytes(data), SearchRequest("needle"), seconds=0) == [2, 3]


def test_a_search_goes_on_in_the_line_that_was_not_finished() -> None:
    progress = SearchProgress(0, 0)
    first = search(source_of(b"a\nneed"), SearchRequest("needle"), progress, limit=9, budget=Budget(60))
    assert (first.lines, progress) == ([], SearchProgress(1, 2, done=True))

    second: Hits = search(source_of(b"a\nneedle\nb\n"), SearchRequest("needle"), progress, limit=9, budget=Budget(60))

    assert (second.lines, second.excerpts, progress) == ([2], ["needle"], SearchProgress(3, 11, done=True))


def test_an_excerpt_shows_what_stands_around() -> None:
    data = b"a\n" + b"x" * 5000 + b" needle " + b"y" * 5000 + b"\n"

    hits = search(source_of(data), SearchRequest("needle"), SearchProgress(0, 0), limit=9, budget=Budget(60))

    assert hits.lines == [2] and hits.excerpts == ["x" * 99 + " needle " + "y" * 93]


SIGNS = {
    "Traceback (most recent call last):": ("traceback", True),
    "[rank1]: Traceback (most recent call last):": ("traceback", True),
    "ValueError: bad shape": ("exception", True),
    "[1,3]<stderr>:torch.cuda.OutOfMemoryError: CUDA out of memory.": ("memory", True),
    "tensorflow.python.framework.errors_impl.AbortedError: x": ("exception", True),
    "KeyError: 3": ("exception", True),
    "AssertionError": ("exception", True),
    "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1970": ("gpu", True),
    "[E] Some ncclRemoteError happened": ("gpu", True),
    "Watchdog caught collective operation timeout: WorkNCCL(...)": ("gpu", True),
    "MPI_ABORT was invoked on rank 3": ("mpi", True),
    "mpirun noticed that process rank 1 exited on signal 9": ("mpi", True),
    "Segmentation fault (core dumped)": ("crash", True),
    "Fatal Python error: Aborted": ("crash", True),
    "terminate called after throwing an instance of 'std::bad_alloc'": ("crash", True),
    "2026-11-15 10:00:00 ERROR trainer: no data": ("error", False),
    "error: unknown option": ("error", False),
    "Exception: stop": ("error", False),
    "TestError: 0.25": None,
    "Error: 0.25, lr: 1e-3": None,
    "UserWarning: deprecated": None,
    "no errors found": None,
    "terror alert": None,
    "import torch.MPI_helper": None,
}


@pytest.mark.parametrize(("line", "expected"), SIGNS.items(), ids=SIGNS.keys())
def test_which_lines_tell_of_an_error(line: str, expected: tuple[str, bool] | None) -> None:
    assert find_sign(line) == expected
    if expected is not None:
        assert any(hint in line.encode() for hint in HINTS)


def test_the_first_sure_error_counts_before_an_earlier_doubtful_one() -> None:
    filler = b"step loss=0.1\n" * 700_000
    data = b"start\nERROR: pip's resolver\n" + filler + b"  \x1b[31mTraceback\x1b[0m (most recent call last):\nX\n"
    source, progress = source_of(data), SearchProgress(0, 0)

    early = find_first_error(source, progress, budget=Budget(0))
    assert (early.line, early.is_sure, progress.done) == (2, False, False)
    late = early
    while not progress.done and not late.is_sure:
        late = find_first_error(source, progress, budget=Budget(0))
    rest = find_first_error(source, progress, budget=Budget(60))

    assert (late.line, late.kind, late.is_sure) == (700_003, "traceback", True)
    assert (progress.line, rest.line) == (700_004, None)
    assert find_first_error(source_of(data[:100]), SearchProgress(0, 0), budget=Budget(60)).line == 2
    assert find_first_error(source_of(b""), SearchProgress(0, 0), budget=Budget(60)).progress.done


def test_escapes_and_returns_are_taken_out_in_linear_steps() -> None:
    for unit in (b"\x1b[", b"\x1b[1;", b"\x1b]0;", b"\x1b", b"\r", b"a\r", b"\x1b[000000", b"\r\r\n"):
        data = unit * (400_000 // len(unit))
        assert plain_text(data).count(b"\n") == data.count(b"\n")
    assert plain_text(b"\x1b]8;;http://x\x07link\x1b]8;;\x1b\\ \x1b(Bok\x1b[?25l\n") == b"link ok\n"
