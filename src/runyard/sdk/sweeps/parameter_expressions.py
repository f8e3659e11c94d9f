"""Parameter expressions of a sweep's space: `choice`, `uniform`, … return what Azure's do, a name and its arguments."""

from __future__ import annotations

from typing import Any, List

from runyard.sdk.exceptions import HyperDriveConfigException

Expression = List[Any]


def choice(*options: Any) -> Expression:
    """One of the options; a single list or range is its content."""
    if len(options) == 1 and isinstance(options[0], (list, range)):
        found = list(options[0])
    elif any(isinstance(option, (list, range)) for option in options):
        raise HyperDriveConfigException(
            "choice() takes options one by one, or a single list or range; a list among other options is neither."
        )
    else:
        found = list(options)
    if not found:
        raise HyperDriveConfigException("choice() has no options. Write choice(16, 32, 64).")
    return ["choice", [found]]


def randint(upper: int) -> Expression:
    """A whole number in [0, upper)."""
    if not _is_int(upper) or upper <= 0:
        raise HyperDriveConfigException(f"randint(upper) takes a whole number above 0, found {upper!r}.")
    return ["randint", [upper]]


def uniform(min_value: float, max_value: float) -> Expression:
    """A number between the two."""
    return ["uniform", _range("uniform", min_value, max_value)]


def quniform(min_value: float, max_value: float, q: int) -> Expression:
    """round(uniform(min_value, max_value) / q) * q."""
    return ["quniform", [*_range("quniform", min_value, max_value), _step("quniform", q)]]


def loguniform(min_value: float, max_value: float) -> Expression:
    """exp(uniform(min_value, max_value)): the arguments are exponents."""
    return ["loguniform", _range("loguniform", min_value, max_value, equal=True)]


def qloguniform(min_value: float, max_value: float, q: int) -> Expression:
    """round(exp(uniform(min_value, max_value)) / q) * q."""
    return ["qloguniform", [*_range("qloguniform", min_value, max_value, equal=True), _step("qloguniform", q)]]


def normal(mu: float, sigma: float) -> Expression:
    """A number normally distributed around `mu`."""
    return ["normal", _spread("normal", mu, sigma)]


def qnormal(mu: float, sigma: float, q: int) -> Expression:
    """round(normal(mu, sigma) / q) * q."""
    return ["qnormal", [*_spread("qnormal", mu, sigma), _step("qnormal", q)]]


def lognormal(mu: float, sigma: float) -> Expression:
    """exp(normal(mu, sigma))."""
    return ["lognormal", _spread("lognormal", mu, sigma)]


def qlognormal(mu: float, sigma: float, q: int) -> Expression:
    """round(exp(normal(mu, sigma)) / q) * q."""
    return ["qlognormal", [*_spread("qlognormal", mu, sigma), _step("qlognormal", q)]]


def _range(name: str, low: Any, high: Any, *, equal: bool = False) -> List[float]:
    _check_numbers(name, low, high)
    if low > high or (low == high and not equal):
        raise HyperDriveConfigException(f"{name}({low}, {high}): min_value must be below max_value.")
    return [low, high]


def _spread(name: str, mu: Any, sigma: Any) -> List[float]:
    _check_numbers(name, mu, sigma)
    if sigma < 0:
        raise HyperDriveConfigException(f"{name}({mu}, {sigma}): sigma must be 0 or more.")
    return [mu, sigma]


def _step(name: str, q: Any) -> int:
    if not _is_int(q) or q <= 0:
        raise HyperDriveConfigException(f"{name}: q must be a whole number above 0, found {q!r}.")
    return int(q)


def _check_numbers(name: str, *values: Any) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise HyperDriveConfigException(f"{name}() takes numbers, found {value!r}.")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
