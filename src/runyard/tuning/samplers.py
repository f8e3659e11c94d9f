"""The Sampler `RANDOM`: the n-th trial is a function of the seed and n. Countable spaces give no combination twice."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from runyard.core.sweeps import SweepSpec, Trial
from runyard.tuning.base import Sampler
from runyard.tuning.expressions import draw, options_of
from runyard.tuning.grid import combination, size_of

SHUFFLED_UP_TO = 100_000  # combinations; above it a sweep of at most 1,000 trials meets few twice and draws again


class RandomSampler(Sampler):
    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec
        options = {name: options_of(expression) for name, expression in spec.space.items()}
        self._options = {name: found for name, found in options.items() if found is not None}
        self._is_countable = len(self._options) == len(options)

    def sample(self, index: int, history: Sequence[Trial]) -> dict[str, Any] | None:
        if not self._is_countable:
            return self._drawn(index)
        number = self._number_of(index)
        return None if number is None else combination(self._options, number)

    def _drawn(self, index: int) -> dict[str, Any]:
        random = Random(f"{self._spec.seed}/{index}")
        return {name: draw(expression, random) for name, expression in self._spec.space.items()}

    def _number_of(self, index: int) -> int | None:
        """Return the combination that comes at `index` in an order that the seed alone decides."""
        size = size_of(self._options)
        if index >= size:
            return None
        random = Random(str(self._spec.seed))
        if size <= SHUFFLED_UP_TO:
            return random.sample(range(size), size)[index]
        met: dict[int, None] = {}
        while len(met) <= index:
            met.setdefault(random.randrange(size))
        return list(met)[index]
