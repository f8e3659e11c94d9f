"""Blocks: what 256 points in a row come to. Charts are drawn from these, and points are opened only close up.

Charts: at most so many buckets of a numeric series, with exact minima and maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.core.errors import InvalidArgument
from runyard.store.base import STEP, TIME, Chart, Series
from runyard.store.metrics.chunks import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray


BLOCK_POINTS = 256
MAX_WIDTH = 10_000
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Blocks:
    """Arrays of one length, one place per block. Steps and times are the smallest and the largest in the block.

    `minimum` and `maximum` leave NaN out, except where there is nothing else.
    """

    first_step: NDArray[np.int64]
    last_step: NDArray[np.int64]
    first_time: NDArray[np.int64]
    last_time: NDArray[np.int64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    last: NDArray[np.float64]
    count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.count)

    def moved(self, *, steps: int, times: int) -> Blocks:
        """Return the blocks with so much added to all steps and times."""
        return replace(
            self,
            first_step=self.first_step + steps,
            last_step=self.last_step + steps,
            first_time=self.first_time + times,
            last_time=self.last_time + times,
        )


_FIELDS = tuple(Blocks.__dataclass_fields__)


def sum_up(columns: Columns) -> Blocks:
    """Return the blocks of numeric points."""
    starts = np.arange(0, len(columns), BLOCK_POINTS)
    steps, times = columns.steps, columns.times
    values = np.asarray(columns.values, dtype=np.float64)
    ends = np.append(starts[1:], len(columns))
    return Blocks(
        first_step=np.minimum.reduceat(steps, starts),
        last_step=np.maximum.reduceat(steps, starts),
        first_time=np.minimum.reduceat(times, starts),
        last_time=np.maximum.reduceat(times, starts),
        minimum=np.fmin.reduceat(values, starts),
        maximum=np.fmax.reduceat(values, starts),
        last=values[ends - 1],
        count=ends - starts,
    )


def of_points(columns: Columns) -> Blocks:
    """Return a block per point."""
    values = np.asarray(columns.values, dtype=np.float64)
    steps, times = columns.steps, columns.times
    return Blocks(steps, steps, times, times, values, values, values, np.ones(len(values), dtype=np.int64))


def join_blocks(parts: Sequence[Blocks]) -> Blocks:
    """Return the blocks of all parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    return Blocks(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))


def no_blocks() -> Blocks:
    """Return blocks of no points."""
    whole, real = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
    return Blocks(whole, whole, whole, whole, real, real, real, whole)


def gather(blocks: Blocks, width: int) -> Blocks:
    """Return at most `width` blocks, each made of neighbours.

    Where steps start anew, as in a second attempt, a block starts too: one over both would reach over everything.
    """
    if len(blocks) <= width:
        return blocks
    anew = np.flatnonzero(blocks.first_step[1:] < blocks.first_step[:-1]) + 1
    if len(anew) > width // 4:
        anew = anew[:0]  # steps in no order at all
    even = width - len(anew)
    starts = np.unique(np.concatenate([np.arange(even, dtype=np.int64) * len(blocks) // even, anew]))
    ends = np.append(starts[1:], len(blocks))
    return Blocks(
        first_step=np.minimum.reduceat(blocks.first_step, starts),
        last_step=np.maximum.reduceat(blocks.last_step, starts),
        first_time=np.minimum.reduceat(blocks.first_time, starts),
        last_time=np.maximum.reduceat(blocks.last_time, starts),
        minimum=np.fmin.reduceat(blocks.minimum, starts),
        maximum=np.fmax.reduceat(blocks.maximum, starts),
        last=blocks.last[ends - 1],
        count=np.add.reduceat(blocks.count, starts),
    )


def to_bytes(blocks: Blocks) -> bytes:
    """Return all but the counts, which follow from the chunk's."""
    return b"".join(getattr(blocks, name).astype(_stored_type(name)).tobytes() for name in _FIELDS[:-1])


def from_bytes(summaries: Sequence[bytes], counts: Sequence[int]) -> Blocks:
    """Return the blocks of several chunks, given each one's bytes and number of points."""
    sizes = [(count + BLOCK_POINTS - 1) // BLOCK_POINTS for count in counts]
    fields: dict[str, list[Any]] = {name: [] for name in _FIELDS[:-1]}
    for summary, size in zip(summaries, sizes):
        for index, name in enumerate(_FIELDS[:-1]):
            fields[name].append(np.frombuffer(summary, _stored_type(name), size, index * size * 8))
    arrays = {name: np.concatenate(parts) for name, parts in fields.items()}
    return Blocks(**arrays, count=_block_counts(sizes, counts))


def _block_counts(sizes: Sequence[int], counts: Sequence[int]) -> NDArray[np.int64]:
    found = np.full(sum(sizes), BLOCK_POINTS, dtype=np.int64)
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64)) - 1
    found[ends] = np.asarray(counts, dtype=np.int64) - (np.asarray(sizes, dtype=np.int64) - 1) * BLOCK_POINTS
    return found


def _stored_type(name: str) -> str:
    return "<i8" if name.endswith(("step", "time")) else "<f8"


@dataclass(frozen=True)
class Window:
    """The part of a series that is drawn: steps, or times in ns, `first` to `last`, both included."""

    x: str = STEP
    first: int | None = None
    last: int | None = None

    @property
    def low(self) -> int:
        """The lowest x inside, within 64 bits."""
        return _LEAST if self.first is None else max(_LEAST, min(_MOST, self.first))

    @property
    def high(self) -> int:
        """The highest x inside, within 64 bits."""
        return _MOST if self.last is None else max(_LEAST, min(_MOST, self.last))

    def before(self, *, steps: int, times: int) -> Window:
        """Return the window over points to which so much is yet to be added."""
        shift = times if self.x == TIME else steps
        return Window(self.x, *(None if edge is None else edge - shift for edge in (self.first, self.last)))

    def cut(self, columns: Columns) -> Columns:
        """Return the points inside."""
        places = columns.times if self.x == TIME else columns.steps
        chosen = (places >= self.low) & (places <= self.high)
        if chosen.all():
            return columns
        assert not isinstance(columns.values, list)
        return Columns(columns.kind, columns.values[chosen], columns.steps[chosen], columns.times[chosen])


def chart_of_series(series: Series, window: Window, *, width: int) -> Chart:
    """Return the chart of the points inside the window; InvalidArgument where values are no numbers."""
    if isinstance(series.values, list):
        raise not_numeric(series.metric)
    columns = Columns(series.kind, series.values, series.steps, series.times_ns)
    return to_chart(of_points(window.cut(columns)), width)


def to_chart(blocks: Blocks, width: int) -> Chart:
    """Return a chart of at most `width` buckets."""
    buckets = gather(blocks, max(1, min(width, MAX_WIDTH)))
    return Chart(
        first_step=buckets.first_step,
        last_step=buckets.last_step,
        first_time_ns=buckets.first_time,
        last_time_ns=buckets.last_time,
        minimum=buckets.minimum,
        maximum=buckets.maximum,
        last=buckets.last,
        count=buckets.count,
    )


def not_numeric(metric: str) -> InvalidArgument:
    """Return the error for a metric that cannot be drawn."""
    return InvalidArgument(
        f"Metric `{metric}` cannot be drawn.",
        why="Among its values are some that are no numbers.",
        hint="Read its values instead, or log numbers and text under two names.",
    )
