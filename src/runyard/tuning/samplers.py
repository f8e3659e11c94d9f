"""The Samplers `RANDOM` and `GRID`, and the parameter expressions that they draw from.

An expression such as `["uniform", [0, 1]]` draws from a source of random numbers. `GRID` gives every combination once,
the last parameter fastest. `RANDOM` computes the n-th trial from the seed and n; a countable space gives no combination
twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from runyard.core.errors import InvalidArgument
from runyard.core.specs import SweepSpec, Trial
from runyard.tuning.base import Sampler

_MOST_COUNTED = 1 << 53
_OPTIONS = "choice"
SHUFFLED_UP_TO = 100_000  # combinations; above it a sweep of at most 1,000 trials meets few twice and draws again


def draw(expression: Sequence[Any], random: Random) -> Any:
    """Return one value of the expression."""
    name, arguments = split(expression)
    if name not in _DRAWS:
        raise InvalidArgument(
            f"There is no parameter expression {name!r}.", hint=f"Known: {', '.join(sorted(_DRAWS))}."
        )
    return _DRAWS[name](random, *arguments)


def options_of(expression: Sequence[Any]) -> Sequence[Any] | None:
    """Return every value that the expression can have, None when they cannot be counted. A range is not written out."""
    name, arguments = split(expression)
    if name == _OPTIONS:
        return list(arguments[0])
    if name == "randint" and int(arguments[0]) <= _MOST_COUNTED:
        return range(int(arguments[0]))
    return None


def split(expression: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    name, arguments = expression
    return str(name), arguments


def _choice(random: Random, options: Sequence[Any]) -> Any:
    return options[random.randrange(len(options))]


def _randint(random: Random, upper: int) -> int:
    return random.randrange(int(upper))


def _uniform(random: Random, low: float, high: float) -> float:
    return random.uniform(low, high)


def _loguniform(random: Random, low: float, high: float) -> float:
    return math.exp(random.uniform(low, high))


def _normal(random: Random, mu: float, sigma: float) -> float:
    return random.gauss(mu, sigma)


def _lognormal(random: Random, mu: float, sigma: float) -> float:
    return math.exp(random.gauss(mu, sigma))


def _rounded(draw_one: Callable[[Random, float, float], float]) -> Callable[[Random, float, float, float], float]:
    """A whole multiple of q: a whole number when q is one, so that `type=int` reads it."""
    return lambda random, first, second, q: round(draw_one(random, first, second) / q) * q


_DRAWS: dict[str, Callable[..., Any]] = {
    "choice": _choice,
    "randint": _randint,
    "uniform": _uniform,
    "quniform": _rounded(_uniform),
    "loguniform": _loguniform,
    "qloguniform": _rounded(_loguniform),
    "normal": _normal,
    "qnormal": _rounded(_normal),
    "lognormal": _lognormal,
    "qlognormal": _rounded(_lognormal),
}


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
