"""A metric as MLflow orders it: numbers by time in milliseconds, then step, then value. Loads numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.store.metrics.chunks import JSON, Columns
from runyard.store.types import History

if TYPE_CHECKING:
    from runyard.store.types import Series

MS = 1_000_000  # ns


@dataclass(frozen=True)
class Block:
    """Points that lie together, with their first and last time in ms and their number; `read` fetches them."""

    first_ms: int
    last_ms: int
    count: int
    read: Callable[[], History]


def history_of(series: Series) -> History:
    """Return the numbers of a series, in order."""
    return ordered(numbers_of(series.kind, series.values, series.steps, series.times_ns))


def history_of_columns(columns: Columns, wall_offset_ns: int) -> History:
    """Return the numbers of a part of a series, in any order."""
    return numbers_of(columns.kind, columns.values, columns.steps, columns.times + wall_offset_ns)


def numbers_of(kind: str, values: Any, steps: Any, times_ns: Any) -> History:
    """Return those points that are numbers; flags are 0 and 1."""
    ms = times_ns // MS
    if kind != JSON:
        return History(np.asarray(values, dtype=np.float64), steps, ms)
    there = np.array([isinstance(value, (int, float)) for value in values], dtype=bool)
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    return History(np.array(numbers, dtype=np.float64), steps[there], ms[there])


def ordered(found: History, *, by_step: bool = False) -> History:
    """Return points by time, step and value, or by step, time and value; NaN counts as 0, behind 0 itself."""
    is_nan = np.isnan(found.values)
    keys = (is_nan, np.where(is_nan, 0.0, found.values))
    order = np.lexsort((*keys, found.ms, found.steps) if by_step else (*keys, found.steps, found.ms))
    return found.chosen(order)


def window(blocks: Sequence[Block], offset: int, limit: int | None) -> History:
    """Return `limit` points from `offset` on, of all blocks together in order; blocks aside are not read."""
    before, parts = 0, []
    for together in _clusters(blocks):
        count = sum(block.count for block in together)
        start, end = max(offset - before, 0), count if limit is None else offset + limit - before
        before += count
        if start < count and end > 0:
            parts.append(ordered(joined([block.read() for block in together])).chosen(slice(start, end)))
    return joined(parts)


def joined(parts: Sequence[History]) -> History:
    """Return points one part after the other."""
    if not parts:
        return History(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    names = ("values", "steps", "ms")
    return History(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _clusters(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield blocks in groups whose times do not touch, in order of time."""
    together: list[Block] = []
    for block in sorted(blocks, key=lambda block: block.first_ms):
        if together and block.first_ms > max(one.last_ms for one in together):
            yield together
            together = []
        together.append(block)
    if together:
        yield together
