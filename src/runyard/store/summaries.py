"""The summary of a metric's column: last, smallest and largest value of the lowest rank. Pure; every store uses it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from runyard.store.chunks import Columns
from runyard.store.kinds import as_number, numbers_among


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
    return Summary(server, rank, len(columns), last, minimum, maximum, attempt, int(columns.times.max()))


def combine(old: Summary | None, new: Summary) -> Summary:
    """Return the summary of both; only the lowest rank counts, workers before servers."""
    if old is None or (new.server, new.rank) < (old.server, old.rank):
        return new
    if (new.server, new.rank) > (old.server, old.rank):
        return old
    later = (new.last_attempt, new.last_time) >= (old.last_attempt, old.last_time)
    return replace(
        new if later else old,
        count=old.count + new.count,
        minimum=_best(min, old.minimum, new.minimum),
        maximum=_best(max, old.maximum, new.maximum),
    )


def _extremes(columns: Columns) -> tuple[float | None, float | None]:
    if isinstance(columns.values, list):
        numbers = numbers_among(columns.values)
        return (min(numbers), max(numbers)) if numbers else (None, None)
    low, high = float(np.fmin.reduce(columns.values)), float(np.fmax.reduce(columns.values))
    return (None, None) if low != low else (low, high)


def _best(choose: Any, first: float | None, second: float | None) -> float | None:
    found = [value for value in (first, second) if value is not None]
    return choose(found) if found else None
