"""The StoppingPolicy `MedianStopping`: whose best is worse than the median of running averages is stopped."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from runyard.core.sweeps import Decision, Trial
from runyard.tuning.base import StoppingPolicy
from runyard.tuning.goals import best_of, is_better


class MedianStopping(StoppingPolicy):
    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        found = best_of(trial.values[:interval], self.spec.goal)
        averages = [average for average in (_average(one, interval) for one in trials) if average is not None]
        if found is None or not averages:
            return Decision(stop=False, reason="Nothing to compare yet.")
        bound = statistics.median(averages)
        stop = is_better(bound, found, self.spec.goal)
        side = "worse than" if stop else "no worse than"
        reason = (
            f"At interval {interval} its best was {found:.6g}, {side} {bound:.6g}, the median of the running "
            f"averages of {len(averages)} trials."
        )
        return Decision(stop, reason, bound=bound, found=found)


def _average(trial: Trial, interval: int) -> float | None:
    """Return the mean of what the trial had by `interval`, NaN left out; None when nothing is left."""
    values = [value for value in trial.values[:interval] if not math.isnan(value)]
    if not values:
        return None
    # A mean of equal numbers may be rounded to their neighbour, which would stop the best trial.
    return min(max(statistics.fmean(values), min(values)), max(values))
