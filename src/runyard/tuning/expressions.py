"""Parameter expressions: what `["uniform", [0, 1]]` draws from a source of random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from runyard.core.errors import InvalidArgument

_MOST_COUNTED = 1 << 53
_OPTIONS = "choice"


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
