"""How a sweep chooses values: at random, every combination, or by what earlier trials showed."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from runyard.sdk.config.notices import warn
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


class HyperParameterSampling:
    """Base of the samplings. `parameter_space` maps a parameter's name to `choice(...)`, `uniform(...)` and so on.

    Args:
        properties: `{"seed": 7}` makes Random choose the same trials again; without it a seed is made and kept.

    Raises:
        HyperDriveConfigException: the space is empty or holds what the sampling cannot use.
    """

    NAME = ""
    ALLOWED = EXPRESSIONS

    def __init__(
        self, parameter_space: Mapping[str, Any], properties: Optional[Mapping[str, Any]] = None, **more: Any
    ) -> None:
        if not isinstance(parameter_space, Mapping) or not parameter_space:
            raise HyperDriveConfigException(
                "parameter_space must be a dict of expressions that is not empty: {'--learning-rate': uniform(0, 1)}."
            )
        self._parameter_space: Space = {
            _name(name): self._checked(str(name), expression) for name, expression in parameter_space.items()
        }
        self._properties = {**(properties or {}), **more}

    @property
    def parameter_space(self) -> Space:
        return self._parameter_space

    @property
    def seed(self) -> Optional[int]:
        found = self._properties.get("seed")
        return None if found is None else int(found)

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


class RandomParameterSampling(HyperParameterSampling):
    """Values at random. A space of choices alone gives no combination twice and ends when it is used up."""

    NAME = "RANDOM"


class GridParameterSampling(HyperParameterSampling):
    """Every combination of choices once."""

    NAME = "GRID"
    ALLOWED = frozenset({"choice"})


class BayesianParameterSampling(HyperParameterSampling):
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


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip("-"):
        raise HyperDriveConfigException(f"A parameter's name must be text, found {name!r}.")
    return name
