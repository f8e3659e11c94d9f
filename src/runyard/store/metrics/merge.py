"""Series of one metric become one: writers of a rank by monotonic time, attempts one after another. Pure.

External writers follow the attempts, all of them by the wall clock: they may be days and machines apart.

The summary of a metric's column: last, latest, smallest and largest value of the lowest rank. Pure; every store uses
it. The *last* value is what was logged last. The *latest* is the number with the highest step, then time in
milliseconds, then value, as MLflow has it; points without steps count on from those before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.store.base import ALL_RANKS, Series
from runyard.store.metrics.chunks import F8, JSON, Columns, as_number, concatenate, numbers_among, settle, to_python

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MS = 1_000_000  # ns


@dataclass(frozen=True)
class Piece:
    """What one writer logged into one segment. `numbered`: its steps are only positions."""

    external_writer: int
    attempt: int
    writer: str
    segment: int
    wall_offset_ns: int
    numbered: bool
    columns: Columns

    @property
    def source(self) -> tuple[bool, int]:
        """The processes that it comes from: the external writers, or those of one attempt."""
        return self.external_writer != 0, self.attempt

    @property
    def place(self) -> tuple[int, int, str, int]:
        """What pieces are sorted by: external writer, attempt, writer, segment."""
        return self.external_writer, self.attempt, self.writer, self.segment


def merge(pieces: Sequence[Piece], *, metric: str, column: str, rank: int) -> Series:
    """Return all points in reading order; those of several ranks, perhaps of several machines, by the wall clock."""
    ordered = sorted(pieces, key=lambda piece: (piece.source, piece.place))
    by_source = groupby(ordered, key=lambda piece: piece.source)
    groups = [_merge_source(list(group), by_wall_clock=source[0] or rank == ALL_RANKS) for source, group in by_source]
    columns = concatenate([group[0] for group in groups])
    offsets = np.concatenate([group[1] for group in groups]) if len(groups) > 1 else groups[0][1]
    kind, values = columns.kind, columns.values
    if kind == JSON:
        kind, values = settle(values)
    steps = columns.steps
    if len(pieces) > 1 and all(piece.numbered for piece in pieces):
        steps = np.arange(len(columns), dtype=np.int64)
    return Series(metric, column, rank, kind, values, steps, columns.times + offsets)


def fill(column: Piece | None, rows: Piece) -> Piece:
    """Return a table's column with None in the rows that lack it. Steps of a column are row numbers."""
    if column is not None and len(column.columns) == len(rows.columns):
        return Piece(*rows.place, rows.wall_offset_ns, True, column.columns)
    values: list[Any] = [None] * len(rows.columns)
    if column is not None:
        for step, value in zip(column.columns.steps.tolist(), to_python(column.columns.values, column.columns.kind)):
            values[step] = value
    filled = Columns(JSON, values, rows.columns.steps, rows.columns.times)
    return Piece(*rows.place, rows.wall_offset_ns, True, filled)


def _merge_source(pieces: list[Piece], *, by_wall_clock: bool) -> tuple[Columns, NDArray[np.int64]]:
    offsets = np.repeat(
        np.array([piece.wall_offset_ns for piece in pieces], dtype=np.int64),
        [len(piece.columns) for piece in pieces],
    )
    columns = concatenate([piece.columns for piece in pieces])
    if len(pieces) == 1:
        return columns, offsets
    # Threads of one writer may take the time in one order and write in another: its own order stays.
    keys = np.concatenate([np.maximum.accumulate(piece.columns.times) for piece in pieces])
    if by_wall_clock:
        keys = keys + offsets
    order = np.argsort(keys, kind="stable")
    values: Any = columns.values
    values = [values[index] for index in order] if isinstance(values, list) else values[order]
    return Columns(columns.kind, values, columns.steps[order], columns.times[order]), offsets[order]


@dataclass(frozen=True)
class Summary:
    """Last, smallest and largest value of one column of a metric, as its lowest rank logged them."""

    server: int
    rank: int
    count: int
    last_value: Any
    minimum: float | None
    maximum: float | None
    last_external_writer: int
    last_attempt: int
    last_time: int
    latest: float | None  # may be NaN, which is below all numbers; None: there is no number
    latest_step: int | None
    latest_ms: int | None
    numbered: bool = False  # the steps are only positions; not stored

    @property
    def last_place(self) -> tuple[bool, int, int]:
        """Where the last value stands in reading order. The time of an external writer is the wall clock's."""
        return self.last_external_writer != 0, self.last_attempt, self.last_time

    @property
    def last(self) -> float | None:
        """The last value as a number, None where it is none."""
        return as_number(self.last_value)

    def without_numbers(self) -> Summary:
        """Return the summary of a table's rows, of which only the count means something."""
        return replace(self, last_value=None, minimum=None, maximum=None, latest=None, latest_step=None, latest_ms=None)


def summarize(
    columns: Columns, *, server: int, rank: int, source: tuple[int, int], wall_offset_ns: int, numbered: bool
) -> Summary:
    """Return the summary of points that just came; `source` is (external writer, attempt)."""
    last_time = span(columns.times)[1] + (wall_offset_ns if source[0] else 0)
    minimum, maximum = _extremes(columns)
    last = columns.values[-1]
    if columns.kind != "json":
        last = bool(last) if columns.kind == "b1" else last.item()
    latest, step, ms = _latest(columns, wall_offset_ns, numbered=numbered)
    return Summary(
        server, rank, len(columns), last, minimum, maximum, *source, last_time, latest, step, ms, numbered=numbered
    )


def combine(old: Summary | None, new: Summary) -> Summary:
    """Return the summary of both; only the lowest rank counts, workers before servers."""
    if old is None or (new.server, new.rank) < (old.server, old.rank):
        return new
    if (new.server, new.rank) > (old.server, old.rank):
        return old
    later = new if new.last_place >= old.last_place else old
    latest = _later_number(old, new)
    return Summary(
        old.server,
        old.rank,
        old.count + new.count,
        later.last_value,
        _best(min, old.minimum, new.minimum),
        _best(max, old.maximum, new.maximum),
        later.last_external_writer,
        later.last_attempt,
        later.last_time,
        latest.latest,
        latest.latest_step,
        latest.latest_ms,
    )


def span(times: NDArray[np.int64]) -> tuple[int, int]:
    """Return the first and the last time. Live runs send point by point, so one point must cost little."""
    if len(times) == 1:
        only = int(times[0])
        return only, only
    return int(times.min()), int(times.max())


def _later_number(old: Summary, new: Summary) -> Summary:
    """Return the one whose latest number stays."""
    if new.latest_step is None:
        return old
    if new.numbered:
        # They count on from what is there, or belong before it, being of an attempt or writer that is.
        is_before = old.latest_step is not None and new.last_place < old.last_place
        return old if is_before else replace(new, latest_step=old.count + new.latest_step)
    return new if old.latest_step is None or _rank_of(new) >= _rank_of(old) else old


def _rank_of(summary: Summary) -> tuple[int, int, bool, float]:
    assert summary.latest is not None and summary.latest_step is not None and summary.latest_ms is not None
    return summary.latest_step, summary.latest_ms, *_above_nan(summary.latest)


def _above_nan(value: float) -> tuple[bool, float]:
    return value == value, value


def _latest(columns: Columns, offset_ns: int, *, numbered: bool) -> tuple[float, int, int] | tuple[None, None, None]:
    """Return the latest number with its step, which counts from 0 where steps are only positions, and its time."""
    values, steps, times = columns.values, columns.steps, columns.times
    if isinstance(values, list):
        at = [index for index, value in enumerate(values) if _is_number(value)]
        if not at:
            return None, None, None
        found = Columns(F8, np.array([values[index] for index in at], dtype="f8"), steps[at], times[at])
        latest = _latest(found, offset_ns, numbered=False)
        return (float(values[at[-1]]), at[-1], _ms(times[at[-1]], offset_ns)) if numbered else latest
    index = len(values) - 1
    if index and not numbered:
        highest = np.flatnonzero(steps == steps.max())
        if len(highest) > 1:
            ms = (times[highest] + offset_ns) // _MS
            highest = highest[ms == ms.max()]
        index = max(highest.tolist(), key=lambda at: _above_nan(float(values[at])))
    return float(values[index]), index if numbered else int(steps[index]), _ms(times[index], offset_ns)


def _ms(time: np.int64, offset_ns: int) -> int:
    return (int(time) + offset_ns) // _MS


def _is_number(value: Any) -> bool:
    return as_number(value) is not None or (isinstance(value, float) and value != value)


def _extremes(columns: Columns) -> tuple[float | None, float | None]:
    if isinstance(columns.values, list) or len(columns) == 1:
        numbers = numbers_among(to_python(columns.values, columns.kind))
        return (min(numbers), max(numbers)) if numbers else (None, None)
    low, high = float(np.fmin.reduce(columns.values)), float(np.fmax.reduce(columns.values))
    return (None, None) if low != low else (low, high)


def _best(choose: Callable[[float, float], float], first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return choose(first, second)
