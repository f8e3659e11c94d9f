"""Better and worse: a sweep's goal, with NaN as the worst of all values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from runyard.core.sweeps import MAXIMIZE, Trial


def is_better(first: float, second: float, goal: str) -> bool:
    """Whether `first` is strictly better; anything is better than NaN, and NaN than nothing."""
    if math.isnan(first) or math.isnan(second):
        return not math.isnan(first)
    return first > second if goal == MAXIMIZE else first < second


def best_of(values: Iterable[float], goal: str) -> float | None:
    """Return the best value; NaN only when there is nothing else, None without any."""
    best: float | None = None
    for value in values:
        if best is None or (math.isnan(best) and not math.isnan(value)) or is_better(value, best, goal):
            best = value
    return best


def best_by(trials: Sequence[Trial], interval: int, goal: str) -> float | None:
    """Return the best value that any trial had by its own `interval`."""
    return best_of((value for trial in trials for value in trial.values[:interval]), goal)
