"""The `sweep:` section of a job file becomes a HyperDriveConfig: sampling, parameters, metric, policy and limits."""

from __future__ import annotations

import ast
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

from runyard.core.errors import InvalidArgument
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.sweeps import sampling
from runyard.sdk.sweeps.config import HyperDriveConfig, PrimaryMetricGoal
from runyard.sdk.sweeps.policies import (
    BanditPolicy,
    EarlyTerminationPolicy,
    MedianStoppingPolicy,
    NoTerminationPolicy,
    TruncationSelectionPolicy,
)
from runyard.sdk.sweeps.sampling import (
    EXPRESSIONS,
    BayesianParameterSampling,
    GridParameterSampling,
    HyperParameterSampling,
    RandomParameterSampling,
)

KEYS = ("sampling", "seed", "parameters", "metric", "goal", "policy", "max_runs", "concurrency", "max_minutes")
_SAMPLINGS = {"random": RandomParameterSampling, "grid": GridParameterSampling, "bayesian": BayesianParameterSampling}
_POLICIES: Dict[str, Callable[..., EarlyTerminationPolicy]] = {
    "bandit": BanditPolicy,
    "median": MedianStoppingPolicy,
    "truncation": TruncationSelectionPolicy,
    "none": NoTerminationPolicy,
}
_CALL = re.compile(r"([a-z]+)\((.*)\)", re.DOTALL)


def make_sweep(section: Mapping[str, Any], config: ScriptRunConfig) -> HyperDriveConfig:
    """Return the sweep over `config`.

    Raises:
        InvalidArgument: a key or a value that no sweep has.
        HyperDriveConfigException: the values do not go together.
    """
    found = {str(key).replace("-", "_"): value for key, value in section.items()}
    for key in found:
        _known(key, KEYS, "a sweep has no key")
    for key in ("parameters", "metric", "goal"):
        if not found.get(key):
            raise InvalidArgument(
                f"The sweep lacks `{key}`.",
                hint="sweep: {sampling: random, parameters: {lr: 'uniform(0.01, 0.1)'}, metric: loss, goal: minimize}",
            )
    return HyperDriveConfig(
        hyperparameter_sampling=_sampling(found),
        primary_metric_name=str(found["metric"]),
        primary_metric_goal=PrimaryMetricGoal.from_str(str(found["goal"])),
        max_total_runs=found.get("max_runs"),
        max_concurrent_runs=found.get("concurrency"),
        **({"max_duration_minutes": found["max_minutes"]} if found.get("max_minutes") else {}),
        policy=_policy(found.get("policy")),
        run_config=config,
    )


def _sampling(found: Mapping[str, Any]) -> HyperParameterSampling:
    name = str(found.get("sampling") or "random").lower()
    _known(name, list(_SAMPLINGS), "there is no sampling")
    parameters = found["parameters"]
    if not isinstance(parameters, Mapping):
        raise InvalidArgument(f"`parameters` should be `name: expression` lines, found {parameters!r:.80}.")
    space = {_option(str(key)): _expression(str(key), value) for key, value in parameters.items()}
    return _SAMPLINGS[name](space, **({"seed": found["seed"]} if found.get("seed") is not None else {}))


def _option(name: str) -> str:
    """Return the parameter as the script gets it: `lr` is `--lr`."""
    return name if name.startswith("-") else f"--{name}"


def _expression(name: str, value: Any) -> List[Any]:
    """Return the expression of `[16, 32]`, `uniform(0.1, 1)`, or `uniform: [0.1, 1]`."""
    if isinstance(value, list):
        return sampling.choice(value)
    if isinstance(value, Mapping) and len(value) == 1:
        (kind, arguments), *_ = value.items()
        given = list(arguments) if isinstance(arguments, list) else [arguments]
        return _call(name, str(kind), given)
    match = _CALL.fullmatch(str(value).strip())
    if match is None:
        return sampling.choice(value)
    try:
        arguments = ast.literal_eval(f"({match.group(2)},)") if match.group(2).strip() else ()
    except (ValueError, SyntaxError) as error:
        raise InvalidArgument(
            f"The parameter `{name}` is `{value}`, whose arguments cannot be read.", hint="uniform(0.001, 0.1)"
        ) from error
    return _call(name, match.group(1), list(arguments))


def _call(name: str, kind: str, arguments: Sequence[Any]) -> List[Any]:
    _known(kind, sorted(EXPRESSIONS), f"the parameter `{name}` has an expression that is not known:")
    try:
        found: List[Any] = getattr(sampling, kind)(*arguments)
    except TypeError as error:
        raise InvalidArgument(
            f"The parameter `{name}`: {kind}() got {len(arguments)} values.", why=f"{error}."
        ) from error
    return found


def _policy(found: Any) -> EarlyTerminationPolicy:
    """Return the policy of `median`, or of `bandit: {slack_factor: 0.1}`."""
    if found is None:
        return NoTerminationPolicy()
    name, options = (found, {}) if isinstance(found, str) else next(iter(dict(found).items()), ("", {}))
    _known(str(name), list(_POLICIES), "there is no policy")
    try:
        return _POLICIES[str(name)](**{str(key): value for key, value in dict(options or {}).items()})
    except TypeError as error:
        raise InvalidArgument(f"The policy `{name}` cannot have these settings.", why=f"{error}.") from None


def _known(name: str, names: Sequence[str], what: str) -> None:
    if name in names:
        return
    from difflib import get_close_matches  # only for the message

    near = get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(names)}."
    raise InvalidArgument(f"{what[0].upper()}{what[1:]} `{name}`.", hint=hint)
