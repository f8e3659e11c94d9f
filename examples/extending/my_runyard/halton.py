"""The Sampler `HALTON`: trials that fill the space evenly, and the class by which a sweep asks for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from azureml.train.hyperdrive import HyperParameterSampling
from runyard.core.errors import InvalidArgument
from runyard.core.specs import SweepSpec, Trial
from runyard.tuning.base import Sampler

ALLOWED = frozenset({"choice", "loguniform", "uniform"})
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)  # one for each parameter


class HaltonSampling(HyperParameterSampling):
    """What users write: `HaltonSampling({"--lr": uniform(0, 1)})`."""

    NAME = "HALTON"
    ALLOWED = ALLOWED


class HaltonSampler(Sampler):
    """What the server calls. Trial n is point n + 1 of the Halton sequence, whatever the earlier trials showed."""

    def __init__(self, spec: SweepSpec) -> None:
        self._space = spec.space
        if len(spec.space) > len(PRIMES) or any(name not in ALLOWED for name, _ in spec.space.values()):
            raise InvalidArgument(
                "HALTON cannot sample this space.",
                why=f"It takes up to {len(PRIMES)} parameters of {', '.join(sorted(ALLOWED))}.",
            )

    def sample(self, index: int, history: Sequence[Trial]) -> dict[str, Any] | None:
        parameters = zip(self._space.items(), PRIMES, strict=False)
        return {name: _value(kind, given, _halton(index + 1, prime)) for (name, (kind, given)), prime in parameters}


def _value(kind: str, given: Sequence[Any], share: float) -> Any:
    """Return the value that lies `share` (0 to 1) of the way through the expression."""
    if kind == "choice":
        options = given[0]
        return options[int(share * len(options))]
    low, high = given
    value = low + share * (high - low)
    return math.exp(value) if kind == "loguniform" else value


def _halton(number: int, base: int) -> float:
    """Return the digits of `number` in that base, mirrored at the point: 1, 2, 3 become 0.1, 0.01, 0.11 in base 2."""
    share, step = 0.0, 1.0
    while number:
        step /= base
        number, digit = divmod(number, base)
        share += digit * step
    return share
