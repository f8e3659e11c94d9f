"""The StoppingPolicy `Bandit`: who lies further behind the best of all trials than the slack allows is stopped."""

from __future__ import annotations

from collections.abc import Sequence

from runyard.core.sweeps import MAXIMIZE, Decision, SweepSpec, Trial
from runyard.tuning.base import StoppingPolicy
from runyard.tuning.goals import best_by, best_of, is_better


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
