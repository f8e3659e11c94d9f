"""How a series grows: which rows an arrival of points writes. Pure.

Rows hold 4,096 points. The last row is *open* while it has fewer, and is rewritten as points come. Rewriting thousands
of points for every single one that a live run logs would write megabytes per second, so the newest points, fewer than
128, wait in the series' *tail*, which is small: it fits a page of the database.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runyard.store.metrics.chunks import CHUNK_POINTS, Columns, concatenate
from runyard.store.metrics.kinds import JSON, join

TAIL_POINTS = 128


@dataclass(frozen=True)
class Growth:
    rows: list[tuple[int, Columns]]  # sequence and points of rows to write; the first may replace the open one
    tail: Columns | None
    chunks: int  # rows there are afterwards
    open_count: int  # points in the last row if it is open, else 0


def grow(
    new: Columns, *, tail: Columns | None, chunks: int, open_count: int, load_open: Callable[[], Columns]
) -> Growth:
    """Return what to write so that `new` follows what is there."""
    waiting = new if tail is None else _join_or_none(tail, new)
    if waiting is None:
        # A tail of another family and many points: it becomes a short row rather than make text of them all.
        assert tail is not None
        sealed = grow_rows(tail, chunks=chunks, open_count=open_count, load_open=load_open, keep_tail=False)
        rest = grow_rows(new, chunks=sealed.chunks, open_count=0, load_open=load_open)
        return Growth(sealed.rows + rest.rows, rest.tail, rest.chunks, rest.open_count)
    if len(waiting) < TAIL_POINTS:
        return Growth([], waiting, chunks, open_count)
    return grow_rows(waiting, chunks=chunks, open_count=open_count, load_open=load_open)


def grow_rows(
    points: Columns, *, chunks: int, open_count: int, load_open: Callable[[], Columns], keep_tail: bool = True
) -> Growth:
    first = chunks
    if open_count:
        joined = _join_or_none(load_open(), points)
        if joined is not None:
            points, first = joined, chunks - 1
    cuts = range(0, len(points), CHUNK_POINTS)
    rows = [(first + index, points.part(at, at + CHUNK_POINTS)) for index, at in enumerate(cuts)]
    tail = None
    if keep_tail and len(rows[-1][1]) < TAIL_POINTS:
        tail = rows.pop()[1]
    last = len(rows[-1][1]) if rows else 0
    return Growth(rows, tail, first + len(rows), last if last < CHUNK_POINTS else 0)


def _join_or_none(first: Columns, second: Columns) -> Columns | None:
    kind = join(first.kind, second.kind)
    if kind == JSON and first.kind != second.kind and max(len(first), len(second)) >= TAIL_POINTS:
        return None
    return concatenate([first, second])
