"""The StoppingPolicy `TruncationSelection`: the worst share of all trials at an interval is stopped. Ties go on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from runyard.core.sweeps import MAXIMIZE, Decision, SweepSpec, Trial
from runyard.tuning.base import StoppingPolicy
from runyard.tuning.goals import is_better


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
