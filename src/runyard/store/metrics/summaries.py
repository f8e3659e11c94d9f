"""The summary of a metric's column: last, smallest and largest value of the lowest rank. Pure; every store uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.store.metrics.chunks import Columns
from runyard.store.metrics.kinds import as_number, numbers_among, to_python

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Summary:
    server: int
    rank: int
    count: int
    last_value: Any
    minimum: float | None
    maximum: float | None
    last_attempt: int
    last_time: int

    @property
    def last(self) -> float | None:
        return as_number(self.last_value)


def summarize(columns: Columns, *, server: int, rank: int, attempt: int) -> Summary:
    """Return the summary of points that just came."""
    minimum, maximum = _extremes(columns)
    last = columns.values[-1]
    if columns.kind != "json":
        last = bool(last) if columns.kind == "b1" else last.item()
    return Summary(server, rank, len(columns), last, minimum, maximum, attempt, span(columns.times)[1])


def combine(old: Summary | None, new: Summary) -> Summary:
    """Return the summary of both; only the lowest rank counts, workers before servers."""
    if old is None or (new.server, new.rank) < (old.server, old.rank):
        return new
    if (new.server, new.rank) > (old.server, old.rank):
        return old
    later = new if (new.last_attempt, new.last_time) >= (old.last_attempt, old.last_time) else old
    return Summary(
        old.server,
        old.rank,
        old.count + new.count,
        later.last_value,
        _best(min, old.minimum, new.minimum),
        _best(max, old.maximum, new.maximum),
        later.last_attempt,
        later.last_time,
    )


def span(times: NDArray[np.int64]) -> tuple[int, int]:
    """Return the first and the last time. Live runs send point by point, so one point must cost little."""
    if len(times) == 1:
        only = int(times[0])
        return only, only
    return int(times.min()), int(times.max())


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
