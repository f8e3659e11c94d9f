"""The StoppingPolicy `Default`: every trial goes on to its own end."""

from __future__ import annotations

from collections.abc import Sequence

from runyard.core.sweeps import Decision, Trial
from runyard.tuning.base import StoppingPolicy


class NoStopping(StoppingPolicy):
    def is_due(self, interval: int) -> bool:
        return False

    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        return Decision(stop=False, reason="This sweep stops nothing early.")
