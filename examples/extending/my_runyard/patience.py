"""The StoppingPolicy `Patience`: a trial that has not improved for a while is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from azureml.train.hyperdrive import EarlyTerminationPolicy
from runyard.core.specs import MAXIMIZE, Decision, SweepSpec, Trial
from runyard.tuning.base import StoppingPolicy


class PatiencePolicy(EarlyTerminationPolicy):
    """What users write: `PatiencePolicy(patience=5)`."""

    NAME = "Patience"

    def __init__(self, patience: int, evaluation_interval: int = 1, delay_evaluation: int = 0) -> None:
        super().__init__(evaluation_interval, delay_evaluation)
        self.patience = patience

    def properties(self) -> dict[str, Any]:
        return {**super().properties(), "patience": self.patience}


class Patience(StoppingPolicy):
    """What the server calls, with the properties of the class above."""

    def __init__(self, spec: SweepSpec) -> None:
        super().__init__(spec)
        self._patience = int(spec.policy_properties["patience"])

    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        values = trial.values[:interval]
        before, recent = values[: -self._patience], values[-self._patience :]
        if not before:
            return Decision(stop=False, reason=f"It has logged {interval} values.")
        best = max if self.spec.goal == MAXIMIZE else min
        bound, found = best(before), best(recent)
        stop = best(bound, found) == bound  # no recent value is better
        reason = f"The best of its last {self._patience} values was {found:.6g}, the best before them {bound:.6g}."
        return Decision(stop, reason, bound=bound, found=found)
