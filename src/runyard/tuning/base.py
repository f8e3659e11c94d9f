"""The seams `Sampler` and `StoppingPolicy`: pure functions of a sweep's specification and history."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from runyard.core.specs import Decision, SweepSpec, Trial


class Sampler(ABC):
    """Says what the next trial is. Constructed with the sweep's specification; keeps no state between calls."""

    @abstractmethod
    def sample(self, index: int, history: Sequence[Trial]) -> dict[str, Any] | None:
        """Return the parameters of trial `index` (0, 1, 2…); None when the space is used up.

        `history` is every earlier trial as far as it is known. The same arguments give the same answer.
        """


class StoppingPolicy(ABC):
    """Says whether a trial should go on. Constructed with the sweep's specification; keeps no state between calls.

    One interval is one logging of the primary metric by that trial.
    """

    def __init__(self, spec: SweepSpec) -> None:
        self.spec = spec
        self.evaluation_interval = int(spec.policy_properties.get("evaluation_interval", 1))
        self.delay_evaluation = int(spec.policy_properties.get("delay_evaluation", 0))

    def is_due(self, interval: int) -> bool:
        """Whether the policy looks at a trial that has just reached `interval`."""
        return interval % self.evaluation_interval == 0 and interval >= self.delay_evaluation

    @abstractmethod
    def decide(self, trial: Trial, interval: int, trials: Sequence[Trial]) -> Decision:
        """Return what to do with `trial`, of which `interval` values are known, beside all `trials` (it included)."""
