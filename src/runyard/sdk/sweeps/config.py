"""`HyperDriveConfig`: what a sweep tries, what it measures, and when it ends.

`plan_sweep` turns it into the frozen `SweepSpec`; `sweep_tags` makes the tags that describe a sweep's run.
"""

from __future__ import annotations

import json
import os
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union

from runyard.core.formats.plain import to_plain
from runyard.core.names import check_run_id, make_sweep_id
from runyard.core.specs import MAX_CONCURRENT_RUNS, MAX_TOTAL_RUNS, SWEEP_TYPE, DataReferenceSpec, RunSpec, SweepSpec
from runyard.core.statuses import RunStatus
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import note_without_effect, warn
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import HyperDriveConfigException, HyperDriveScenarioNotSupportedException
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.sweeps.policies import EarlyTerminationPolicy, NoTerminationPolicy
from runyard.sdk.sweeps.sampling import BayesianParameterSampling, HyperParameterSampling

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run


MAX_DURATION_MINUTES = 10080
MAX_PARENTS = 5
RESUMED = "MODEL_LOCATION"
_SYSTEM = "_aml_system_"


class PrimaryMetricGoal(Enum):
    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"

    @staticmethod
    def from_str(goal: str) -> PrimaryMetricGoal:
        try:
            return PrimaryMetricGoal[str(goal).upper()]
        except KeyError:
            raise HyperDriveConfigException(
                f"primary_metric_goal must be MAXIMIZE or MINIMIZE, found {goal!r}."
            ) from None


@raises_azure_errors
class HyperDriveConfig(AzureClass):
    """What `experiment.submit` takes to start a sweep.

    Args:
        hyperparameter_sampling: RandomParameterSampling, GridParameterSampling or BayesianParameterSampling.
        primary_metric_name: the metric that the script logs with `run.log`.
        max_total_runs: 1 to 1,000; None: all of a grid, 1,000 of another space.
        max_concurrent_runs: 1 to 100; all at once by default.
        max_duration_minutes: the sweep ends then; children that still run are cancelled.
        policy: stops children early; none by default.
        estimator, run_config: exactly one, what each child runs.
        resume_from: earlier sweeps (at most 5) whose trials inform this one.
        resume_child_runs: earlier children whose values are tried again, with `--resume-from <their outputs>`.

    Raises:
        HyperDriveConfigException: the arguments do not fit together.
    """

    def __init__(
        self,
        hyperparameter_sampling: HyperParameterSampling,
        primary_metric_name: str,
        primary_metric_goal: Union[PrimaryMetricGoal, str],
        max_total_runs: Optional[int] = None,
        max_concurrent_runs: Optional[int] = None,
        max_duration_minutes: float = MAX_DURATION_MINUTES,
        policy: Optional[EarlyTerminationPolicy] = None,
        estimator: Any = None,
        run_config: Optional[ScriptRunConfig] = None,
        resume_from: Any = None,
        resume_child_runs: Any = None,
        pipeline: Any = None,
        debug_flag: Any = None,
        custom_run_id: Optional[str] = None,
    ) -> None:
        _check_one_source(estimator, run_config, pipeline)
        self.hyperparameter_sampling = _instance(
            "hyperparameter_sampling", hyperparameter_sampling, HyperParameterSampling
        )
        self.primary_metric_name = _metric(primary_metric_name)
        self.primary_metric_goal = _goal(primary_metric_goal)
        note_without_effect({"debug_flag": debug_flag})
        total = MAX_TOTAL_RUNS if max_total_runs is None else max_total_runs
        self.max_total_runs = _count("max_total_runs", total, MAX_TOTAL_RUNS)
        at_once = min(total, MAX_CONCURRENT_RUNS) if max_concurrent_runs is None else max_concurrent_runs
        self.max_concurrent_runs = _count("max_concurrent_runs", at_once, MAX_CONCURRENT_RUNS)
        self.max_duration_minutes = _minutes(max_duration_minutes)
        self.policy = NoTerminationPolicy() if policy is None else _instance("policy", policy, EarlyTerminationPolicy)
        self.estimator = estimator
        self.run_config = run_config
        self.resume_from = _parents(resume_from, self)
        self.resume_child_runs = _children(resume_child_runs)
        self.custom_run_id = None if custom_run_id is None else check_run_id(custom_run_id)
        _check_bayesian(self)

    @property
    def source(self) -> Any:
        """What each child runs: the estimator or the ScriptRunConfig."""
        return self.run_config if self.estimator is None else self.estimator

    @property
    def _primary_metric_config(self) -> Dict[str, str]:
        """Azure's private form of the metric and its goal, which libraries around the SDK read."""
        return {"name": self.primary_metric_name, "goal": self.primary_metric_goal.value.lower()}

    @property
    def _max_total_runs(self) -> int:
        return self.max_total_runs

    @property
    def _run_config(self) -> Any:
        """The run configuration of the children; scripts change it before they submit."""
        return self.source.run_config


@raises_azure_errors
class HyperDriveRunConfig(HyperDriveConfig):
    """The name of 2018, when the estimator came first; that order is understood too."""

    @wraps(HyperDriveConfig.__init__)  # type: ignore[misc]  # its signature, for help() and editors
    def __init__(self, *args: Any, **keywords: Any) -> None:
        if args and not isinstance(args[0], HyperParameterSampling):
            keywords.setdefault("estimator", args[0])
            args = args[1:]
        super().__init__(*args, **keywords)


def _check_one_source(estimator: Any, run_config: Any, pipeline: Any) -> None:
    if pipeline is not None:
        raise HyperDriveScenarioNotSupportedException(
            "A sweep over a pipeline is not supported. Give run_config= or estimator=."
        )
    if (estimator is None) == (run_config is None):
        raise HyperDriveConfigException("HyperDriveConfig takes exactly one of run_config and estimator.")
    if run_config is not None:
        _instance("run_config", run_config, ScriptRunConfig)


def _check_bayesian(config: HyperDriveConfig) -> None:
    sampling = config.hyperparameter_sampling
    if not isinstance(sampling, BayesianParameterSampling):
        return
    if not isinstance(config.policy, NoTerminationPolicy):
        raise HyperDriveConfigException(
            "Bayesian sampling needs every trial's end, so it takes no early termination policy. Leave policy out."
        )
    sampling.check_sizes(config.max_total_runs, config.max_concurrent_runs)


def _instance(name: str, value: Any, kind: Any) -> Any:
    if isinstance(value, kind):
        return value
    raise HyperDriveConfigException(f"{name} must be a {kind.__name__}, found {type(value).__name__}.")


def _metric(name: Any) -> str:
    if isinstance(name, str) and name:
        return name
    raise HyperDriveConfigException(f"primary_metric_name must be the name that the script logs, found {name!r}.")


def _goal(goal: Any) -> PrimaryMetricGoal:
    return goal if isinstance(goal, PrimaryMetricGoal) else PrimaryMetricGoal.from_str(goal)


def _count(name: str, value: Any, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise HyperDriveConfigException(f"{name} must be a whole number from 1 to {most:,}, found {value!r}.")


def _minutes(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise HyperDriveConfigException(f"max_duration_minutes must be a number above 0, found {value!r}.")
    if value > MAX_DURATION_MINUTES:
        warn(f"max_duration_minutes={value:g} is cut to {MAX_DURATION_MINUTES:,} (7 days), the most a sweep may take.")
    return min(value, MAX_DURATION_MINUTES)


def _parents(given: Any, config: HyperDriveConfig) -> List[Any]:
    """Return the earlier sweeps, checked as far as this object knows them."""
    found = _as_list(given)
    if len(found) > MAX_PARENTS:
        raise HyperDriveConfigException(f"resume_from takes at most {MAX_PARENTS} sweeps, found {len(found)}.")
    for run in found:
        if getattr(run, "type", None) != SWEEP_TYPE:
            raise HyperDriveConfigException(f"resume_from takes sweeps (HyperDriveRun), found {run!r:.100}.")
        if run.get_status() not in (RunStatus.COMPLETED.value, RunStatus.CANCELED.value):
            raise HyperDriveConfigException(f"The sweep {run.id!r} has not ended well: its status is {run.status}.")
        earlier = run.hyperdrive_config
        mine = (config.primary_metric_name, config.primary_metric_goal)
        if (earlier.primary_metric_name, earlier.primary_metric_goal) != mine:
            raise HyperDriveConfigException(
                f"The sweep {run.id!r} measured {earlier.primary_metric_name!r} "
                f"({earlier.primary_metric_goal.name}), this one {mine[0]!r} ({mine[1].name})."
            )
        _check_same_space(run, earlier, config)
    return found


def _check_same_space(run: Any, earlier: HyperDriveConfig, config: HyperDriveConfig) -> None:
    if not isinstance(config.hyperparameter_sampling, BayesianParameterSampling):
        return
    if earlier.hyperparameter_sampling.parameter_space != config.hyperparameter_sampling.parameter_space:
        raise HyperDriveConfigException(
            f"Bayesian sampling needs one space: that of the sweep {run.id!r} is another one."
        )


def _children(given: Any) -> List[Any]:
    found = _as_list(given)
    if len({run.id for run in found}) != len(found):
        raise HyperDriveConfigException("resume_child_runs names a run twice.")
    for run in found:
        if not RunStatus(run.get_status()).is_terminal:
            raise HyperDriveConfigException(f"The run {run.id!r} has not ended, so it cannot be resumed.")
        if "hyperparameters" not in run.get_tags():
            raise HyperDriveConfigException(f"The run {run.id!r} is no child of a sweep.")
    return found


def _as_list(given: Any) -> List[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) else [given]


def sweep_run_id(config: HyperDriveConfig) -> str:
    """Return the sweep's run id: `HD_<uuid>`, or the one asked for."""
    return config.custom_run_id or make_sweep_id()


def plan_sweep(config: HyperDriveConfig) -> SweepSpec:
    sampling, policy = config.hyperparameter_sampling, config.policy
    seed = sampling.seed
    return SweepSpec(
        sampling=sampling.NAME,
        space=sampling.parameter_space,
        primary_metric=config.primary_metric_name,
        goal=config.primary_metric_goal.value,
        max_total_runs=config.max_total_runs,
        max_concurrent_runs=config.max_concurrent_runs,
        max_duration_s=config.max_duration_minutes * 60.0,
        policy=policy.NAME,
        policy_properties=policy.properties(),
        seed=int.from_bytes(os.urandom(4), "big") if seed is None else seed,
        resume_from=[run.id for run in config.resume_from],
        first_trials=[_resumed(run) for run in config.resume_child_runs],
    )


def sweep_tags(config: HyperDriveConfig, spec: RunSpec) -> Dict[str, Optional[str]]:
    """Return Azure's tags of a sweep, each also with the prefix of the system's."""
    goal = config.primary_metric_goal.name.lower()
    found: Dict[str, Optional[str]] = {
        "generator_config": json.dumps(config.hyperparameter_sampling.to_json()),
        "primary_metric_config": json.dumps({"name": config.primary_metric_name, "goal": goal}),
        "max_total_jobs": str(config.max_total_runs),
        "max_concurrent_jobs": str(config.max_concurrent_runs),
        "max_duration_minutes": f"{config.max_duration_minutes:g}",
        "policy_config": json.dumps(config.policy.to_json()),
        "platform_config": json.dumps({"target": spec.target, "script": spec.script, "command": spec.command}),
    }
    return {**found, **{f"{_SYSTEM}{name}": value for name, value in found.items()}}


def _resumed(run: Run) -> Dict[str, Any]:
    """Return a trial with the values of an earlier child, that gets the earlier one's outputs."""
    parameters = json.loads(str(run.get_tags()["hyperparameters"]))
    if not any(name.startswith("outputs/") for name in run.get_file_names()):
        return {"parameters": parameters}
    path = run._get_outputs_datapath()
    reference = DataReferenceSpec(datastore=str(path.datastore_name), path=path.path_on_datastore or "")
    return {
        "parameters": parameters,
        "arguments": ["--resume-from", f"$AZUREML_DATAREFERENCE_{RESUMED}"],
        "data_references": {RESUMED: to_plain(reference)},
    }
