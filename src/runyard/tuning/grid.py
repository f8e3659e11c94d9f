"""The Sampler `GRID`: every combination once, the last parameter fastest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.core.errors import InvalidArgument
from runyard.core.sweeps import SweepSpec, Trial
from runyard.tuning.base import Sampler
from runyard.tuning.expressions import options_of


class GridSampler(Sampler):
    def __init__(self, spec: SweepSpec) -> None:
        self._options = {name: _all_options(name, expression) for name, expression in spec.space.items()}

    def sample(self, index: int, history: Sequence[Trial]) -> dict[str, Any] | None:
        return combination(self._options, index)


def combination(options: Mapping[str, Sequence[Any]], index: int) -> dict[str, Any] | None:
    """Return the combination with that number; None when there are fewer."""
    if index >= size_of(options):
        return None
    found: dict[str, Any] = {}
    for name in reversed(list(options)):
        index, position = divmod(index, len(options[name]))
        found[name] = options[name][position]
    return {name: found[name] for name in options}


def size_of(options: Mapping[str, Sequence[Any]]) -> int:
    return math.prod(len(values) for values in options.values())


def _all_options(name: str, expression: Sequence[Any]) -> Sequence[Any]:
    options = options_of(expression)
    if options is None:
        raise InvalidArgument(
            f"Grid sampling cannot count the values of `{name}`, a {expression[0]}.",
            why="A grid tries every combination.",
            hint="Use choice(...) for each parameter, or RandomParameterSampling.",
        )
    return options
