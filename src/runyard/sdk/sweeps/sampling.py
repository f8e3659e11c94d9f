"""The samplings of a sweep, and the parameter expressions of its search space.

A sampling chooses values at random, by every combination, or from the results of earlier trials. `choice`, `uniform`
and the other expressions return what Azure's functions return: a name and its arguments.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import warn
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.exceptions import HyperDriveConfigException

Space = Dict[str, List[Any]]
_MOST_POINTS = 100_000
EXPRESSIONS = frozenset(
    {
        "choice",
        "lognormal",
        "loguniform",
        "normal",
        "qlognormal",
        "qloguniform",
        "qnormal",
        "quniform",
        "randint",
        "uniform",
    }
)


@raises_azure_errors
class HyperParameterSampling(AzureClass):
    """Base of the samplings. `parameter_space` maps a parameter's name to `choice(...)`, `uniform(...)` and so on.

    Args:
        sampling_method_name: RANDOM, GRID or BayesianOptimization.
        properties: `{"seed": 7}` makes Random choose the same trials again; without it a seed is made and kept.
        supported_distributions: the names of the expressions that the space may have.
        distributions_validators: functions by the name of an expression; each gets the expression's arguments and
            raises where they are wrong.

    Raises:
        HyperDriveConfigException: the space is empty or holds what the sampling cannot use.
    """

    NAME = ""
    ALLOWED = EXPRESSIONS

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cls.NAME and cls.__init__ is HyperParameterSampling.__init__:  # a sampling of a plug-in
            cls.__init__ = NamedSampling.__init__  # type: ignore[assignment,method-assign]  # takes no name, it has one

    def __init__(
        self,
        sampling_method_name: str,
        parameter_space: Mapping[str, Any],
        properties: Optional[Mapping[str, Any]] = None,
        supported_distributions: Optional[Iterable[str]] = None,
        distributions_validators: Optional[Mapping[str, Callable[[Any], Any]]] = None,
    ) -> None:
        known = {
            kind.NAME: kind for kind in (RandomParameterSampling, GridParameterSampling, BayesianParameterSampling)
        }
        if sampling_method_name not in known:
            raise HyperDriveConfigException(
                f"There is no sampling {sampling_method_name!r}. Known: {', '.join(known)}."
            )
        self.NAME = sampling_method_name
        self.ALLOWED = known[sampling_method_name].ALLOWED
        if supported_distributions is not None:
            self.ALLOWED &= frozenset(supported_distributions)
        self._set_space(parameter_space, properties)
        for _, (kind, arguments) in self._parameter_space.items():
            if kind in (distributions_validators or {}):
                distributions_validators[kind](arguments)  # type: ignore[index]  # None has no kinds

    def _set_space(self, parameter_space: Any, properties: Any) -> None:
        if not isinstance(parameter_space, Mapping) or not parameter_space:
            raise HyperDriveConfigException(
                "parameter_space must be a dict of expressions that is not empty: {'--learning-rate': uniform(0, 1)}."
            )
        if properties is not None and not isinstance(properties, Mapping):
            raise HyperDriveConfigException(f"properties must be a dict, such as {{'seed': 7}}, found {properties!r}.")
        self._parameter_space: Space = {
            _name(name): self._checked(str(name), expression) for name, expression in parameter_space.items()
        }
        self._properties = dict(properties or {})
        _seed(self._properties.get("seed"))

    @property
    def parameter_space(self) -> Space:
        return self._parameter_space

    @property
    def seed(self) -> Optional[int]:
        return _seed(self._properties.get("seed"))

    def to_json(self) -> Dict[str, Any]:
        found: Dict[str, Any] = {"name": self.NAME, "parameter_space": self._parameter_space}
        return {**found, "properties": self._properties} if self._properties else found

    def _checked(self, name: str, expression: Any) -> List[Any]:
        if not (isinstance(expression, (list, tuple)) and len(expression) == 2 and expression[0] in EXPRESSIONS):
            raise HyperDriveConfigException(
                f"The space of `{name}` is {expression!r:.80}, which is no expression. "
                "Write choice(...), uniform(...) or another one."
            )
        if expression[0] not in self.ALLOWED:
            raise HyperDriveConfigException(
                f"{type(self).__name__} cannot use {expression[0]}() for `{name}`: "
                f"it takes {', '.join(sorted(self.ALLOWED))}."
            )
        return [expression[0], list(expression[1])]


class NamedSampling(HyperParameterSampling):
    """A sampling of a name of its own. Keywords beside `properties` are properties too."""

    def __init__(
        self, parameter_space: Mapping[str, Any], properties: Optional[Mapping[str, Any]] = None, **more: Any
    ) -> None:
        unknown = sorted(set(more) - {"seed"})
        if unknown:
            from runyard.sdk.config.keywords import unknown_keyword  # only to say which one was meant

            raise unknown_keyword(type(self).__name__, unknown[0], ["parameter_space", "properties", "seed"])
        self._set_space(parameter_space, {**(properties or {}), **more} if more else properties)


@raises_azure_errors
class RandomParameterSampling(NamedSampling):
    """Values at random. A space of choices alone gives no combination twice and ends when it is used up."""

    NAME = "RANDOM"


@raises_azure_errors
class GridParameterSampling(NamedSampling):
    """Every combination of choices once."""

    NAME = "GRID"
    ALLOWED = frozenset({"choice"})


@raises_azure_errors
class BayesianParameterSampling(NamedSampling):
    """Values that earlier trials make promising. Needs the extra `bayes` where the server runs."""

    NAME = "BayesianOptimization"
    ALLOWED = frozenset({"choice", "uniform", "quniform"})

    def _checked(self, name: str, expression: Any) -> List[Any]:
        found = super()._checked(name, expression)
        if found[0] == "choice":
            _check_options(name, found[1][0])
        elif found[0] == "quniform":
            low, high, q = found[1]
            if (high - low) / q > _MOST_POINTS:
                raise HyperDriveConfigException(f"quniform() of `{name}` has more than {_MOST_POINTS} points.")
        return found

    def check_sizes(self, max_total_runs: int, max_concurrent_runs: int) -> None:
        """Warn, as Azure does, when there are too few trials to learn from, or too many at once."""
        useful = 20 * len(self.parameter_space)
        if max_total_runs < useful:
            warn(f"Bayesian sampling learns from trials: max_total_runs of {useful} or more is better for this space.")
        if max_concurrent_runs > 20:
            warn("Bayesian sampling learns from finished trials: max_concurrent_runs of 20 or fewer is better.")


def _check_options(name: str, options: List[Any]) -> None:
    texts = [isinstance(option, str) for option in options]
    numbers = [isinstance(option, (int, float)) and not isinstance(option, bool) for option in options]
    if not all(texts) and not all(numbers):
        raise HyperDriveConfigException(
            f"choice() of `{name}`: Bayesian sampling takes options that are all numbers or all texts."
        )


def _seed(value: Any) -> Optional[int]:
    if value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise HyperDriveConfigException(f"The seed of a sampling is a whole number, found {value!r}.") from None


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip("-"):
        raise HyperDriveConfigException(f"A parameter's name must be text, found {name!r}.")
    return name


Expression = List[Any]


@translates
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


@translates
def randint(upper: int) -> Expression:
    """A whole number in [0, upper)."""
    if not _is_int(upper) or upper <= 0:
        raise HyperDriveConfigException(f"randint(upper) takes a whole number above 0, found {upper!r}.")
    return ["randint", [upper]]


@translates
def uniform(min_value: float, max_value: float) -> Expression:
    """A number between the two."""
    return ["uniform", _range("uniform", min_value, max_value)]


@translates
def quniform(min_value: float, max_value: float, q: int) -> Expression:
    """round(uniform(min_value, max_value) / q) * q."""
    return ["quniform", [*_range("quniform", min_value, max_value), _step("quniform", q)]]


@translates
def loguniform(min_value: float, max_value: float) -> Expression:
    """exp(uniform(min_value, max_value)): the arguments are exponents."""
    return ["loguniform", _range("loguniform", min_value, max_value, equal=True)]


@translates
def qloguniform(min_value: float, max_value: float, q: int) -> Expression:
    """round(exp(uniform(min_value, max_value)) / q) * q."""
    return ["qloguniform", [*_range("qloguniform", min_value, max_value, equal=True), _step("qloguniform", q)]]


@translates
def normal(mu: float, sigma: float) -> Expression:
    """A number normally distributed around `mu`."""
    return ["normal", _spread("normal", mu, sigma)]


@translates
def qnormal(mu: float, sigma: float, q: int) -> Expression:
    """round(normal(mu, sigma) / q) * q."""
    return ["qnormal", [*_spread("qnormal", mu, sigma), _step("qnormal", q)]]


@translates
def lognormal(mu: float, sigma: float) -> Expression:
    """exp(normal(mu, sigma))."""
    return ["lognormal", _spread("lognormal", mu, sigma)]


@translates
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
