"""The StoppingPolicies `Default`, `Bandit`, `MedianStopping` and `TruncationSelection`.

`Default` stops nothing. `Bandit` stops a trial that lies further behind the best of all trials than the slack allows.
`MedianStopping` stops a trial whose best value is worse than the median of running averages. `TruncationSelection`
stops the worst share of all trials at an interval, but no trial that ties. The helpers compare values by a sweep's
goal, with NaN as the worst.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from runyard.core.specs import MAXIMIZE, Decision, SweepSpec, Trial
from runyard.tuning.base import StoppingPolicy


class NoStopping(StoppingPolicy):
    def is_due(self, interval: int) -> bool:
        return False

    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        return Decision(stop=False, reason="This sweep stops nothing early.")


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


class Bandit(StoppingPolicy):
    def __init__(self, spec: SweepSpec) -> None:
        super().__init__(spec)
        self._factor = spec.policy_properties.get("slack_factor")
        self._amount = spec.policy_properties.get("slack_amount")

    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        goal = self.spec.goal
        found, best = best_of(trial.values[:interval], goal), best_by(trials, interval, goal)
        if found is None or best is None:
            return Decision(stop=False, reason="Nothing to compare yet.")
        bound = self._bound(best)
        stop = is_better(bound, found, goal)
        side = "worse than" if stop else "within"
        reason = (
            f"At interval {interval} its best was {found:.6g}, {side} {bound:.6g}: the best of all trials by then was "
            f"{best:.6g}, {self._slack()}."
        )
        return Decision(stop, reason, bound=bound, found=found)

    def _bound(self, best: float) -> float:
        """Return how bad a trial may be. Azure defines positive metrics to be maximised; the rest mirrors that."""
        if self._factor is None:
            amount = float(self._amount or 0.0)
            return best - amount if self.spec.goal == MAXIMIZE else best + amount
        share = 1.0 + float(self._factor)
        shrinks = (best >= 0) == (self.spec.goal == MAXIMIZE)
        return best / share if shrinks else best * share

    def _slack(self) -> str:
        return f"slack_amount {self._amount:g}" if self._factor is None else f"slack_factor {self._factor:g}"


class MedianStopping(StoppingPolicy):
    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        found = best_of(trial.values[:interval], self.spec.goal)
        averages = [average for average in (_average(one, interval) for one in trials) if average is not None]
        if found is None or not averages:
            return Decision(stop=False, reason="Nothing to compare yet.")
        from statistics import median  # the engine loads this module with the server, long before a sweep

        bound = median(averages)
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
    from statistics import fmean

    return min(max(fmean(values), min(values)), max(values))


class Truncation(StoppingPolicy):
    def __init__(self, spec: SweepSpec) -> None:
        super().__init__(spec)
        self._percentage = int(spec.policy_properties["truncation_percentage"])
        self._without_finished = bool(spec.policy_properties.get("exclude_finished_jobs", False))

    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        if not 0 < interval <= len(trial.values):
            return Decision(stop=False, reason="Nothing to compare yet.")
        there = [one for one in trials if len(one.values) >= interval and not self._is_excluded(one)]
        values = self._worst_first([one.values[interval - 1] for one in there])
        found, cut = trial.values[interval - 1], len(values) * self._percentage // 100
        bound = values[cut]
        stop = cut > 0 and is_better(bound, found, self.spec.goal)
        side = "among" if stop else "not among"
        reason = (
            f"At interval {interval} its value was {found:.6g}, {side} the worst {self._percentage} % of {len(values)} "
            f"trials there ({cut} of them, worse than {bound:.6g})."
        )
        return Decision(stop, reason, bound=bound, found=found)

    def _is_excluded(self, trial: Trial) -> bool:
        return self._without_finished and trial.is_finished

    def _worst_first(self, values: list[float]) -> list[float]:
        sign = 1 if self.spec.goal == MAXIMIZE else -1
        return sorted(values, key=lambda value: (False, 0.0) if math.isnan(value) else (True, sign * value))
