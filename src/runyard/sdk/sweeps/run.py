"""`HyperDriveRun`: a handle on a sweep and its child runs.

`rebuild_config` restores the configuration from the sweep's record when another process submitted it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, NoReturn, Optional, Sequence, TypeVar, Union

from runyard.core.formats.documents import SweepTrial
from runyard.core.formats.plain import from_plain
from runyard.core.specs import MAXIMIZE, SWEEP_TYPE, SweepSpec
from runyard.core.statuses import RunStatus
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import HyperDriveNotImplementedException, HyperDriveRehydrateException
from runyard.sdk.runs.run import Run
from runyard.sdk.sweeps.config import HyperDriveConfig, PrimaryMetricGoal
from runyard.sdk.sweeps.policies import (
    BanditPolicy,
    EarlyTerminationPolicy,
    MedianStoppingPolicy,
    NoTerminationPolicy,
    TruncationSelectionPolicy,
)
from runyard.sdk.sweeps.sampling import (
    BayesianParameterSampling,
    GridParameterSampling,
    HyperParameterSampling,
    RandomParameterSampling,
)

if TYPE_CHECKING:
    from runyard.core.formats.documents import SweepReport
    from runyard.sdk.workspaces.experiment import Experiment


_SAMPLINGS = (RandomParameterSampling, GridParameterSampling, BayesianParameterSampling)
_POLICIES = (BanditPolicy, MedianStoppingPolicy, TruncationSelectionPolicy)
T = TypeVar("T", bound=SweepTrial)


def rebuild_config(spec: SweepSpec) -> HyperDriveConfig:
    """Return the configuration without what its children run, which only the submitter's object has.

    Raises:
        HyperDriveRehydrateException: the record names a sampling or policy that this version does not know.
    """
    config = HyperDriveConfig.__new__(HyperDriveConfig)
    config.hyperparameter_sampling = _sampling(spec)
    config.primary_metric_name = spec.primary_metric
    config.primary_metric_goal = PrimaryMetricGoal(spec.goal)
    config.max_total_runs = spec.max_total_runs
    config.max_concurrent_runs = spec.max_concurrent_runs
    config.max_duration_minutes = spec.max_duration_s / 60.0
    config.policy = _policy(spec)
    config.estimator = config.run_config = config.custom_run_id = None
    config.resume_from, config.resume_child_runs = [], []
    return config


def _sampling(spec: SweepSpec) -> HyperParameterSampling:
    for kind in _SAMPLINGS:
        if spec.sampling == kind.NAME:
            return kind(spec.space, {"seed": spec.seed})
    raise HyperDriveRehydrateException(f"The sampling {spec.sampling!r} is not known to this version.")


def _policy(spec: SweepSpec) -> EarlyTerminationPolicy:
    if spec.policy == NoTerminationPolicy.NAME:
        return NoTerminationPolicy()
    for kind in _POLICIES:
        if spec.policy == kind.NAME:
            return kind(**spec.policy_properties)
    raise HyperDriveRehydrateException(f"The policy {spec.policy!r} is not known to this version.")


@raises_azure_errors
class HyperDriveRun(Run):
    """A sweep. Its children are runs like any other; `get_best_run_by_primary_metric` finds the winner."""

    RUN_TYPE = SWEEP_TYPE

    def __init__(
        self,
        experiment: Experiment,
        run_id: str,
        hyperdrive_config: Optional[HyperDriveConfig] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(experiment, run_id, **kwargs)
        self._config = hyperdrive_config

    @property
    def hyperdrive_config(self) -> HyperDriveConfig:
        """What was submitted; for a sweep of another process, what its record says."""
        config: Optional[HyperDriveConfig] = self.__dict__.get("_config")
        if config is None:
            config = self._config = rebuild_config(from_plain(SweepSpec, self._sweep()["spec"]))
        return config

    @property
    def _page(self) -> str:
        return f"/sweeps/{self._run_id}"

    def get_best_run_by_primary_metric(
        self, include_failed: bool = True, include_canceled: bool = True, include_resume_from_runs: bool = True
    ) -> Optional[Run]:
        """Return the child with the best value ever logged; None when no child logged the metric."""
        left_out = [RunStatus.FAILED.value] if not include_failed else []
        left_out += [RunStatus.CANCELED.value] if not include_canceled else []
        sweep = self._sweep()
        children = [child for child in sweep["children"] if child["status"] not in left_out]
        trials: List[SweepTrial] = [*children, *(sweep["inherited"] if include_resume_from_runs else [])]
        ranked = [trial for trial in best_first(trials, sweep["spec"]["goal"]) if _value(trial) is not None]
        return Run.get(self.experiment.workspace, ranked[0]["run_id"]) if ranked else None

    def get_children_sorted_by_primary_metric(
        self, top: int = 0, reverse: bool = False, discard_no_metric: bool = False
    ) -> List[Dict[str, object]]:
        """Return {'run_id', 'hyperparameters', 'best_primary_metric', 'status'} of the children, best first."""
        sweep = self._sweep()
        children = best_first(sweep["children"], sweep["spec"]["goal"])
        measured = [child for child in children if _value(child) is not None]
        unmeasured = [] if discard_no_metric else [child for child in children if _value(child) is None]
        ordered = [*(reversed(measured) if reverse else measured), *unmeasured]
        shown = ordered[:top] if top > 0 else ordered
        return [
            {
                "run_id": child["run_id"],
                "hyperparameters": json.dumps(child["parameters"]),
                "best_primary_metric": _value(child),
                "status": child["status"],
            }
            for child in shown
        ]

    def get_hyperparameters(self) -> Dict[str, str]:
        """Return {child's run id: its values as JSON}."""
        return {child["run_id"]: json.dumps(child["parameters"]) for child in self._sweep()["children"]}

    def get_metrics(
        self,
        name: Optional[str] = None,
        recursive: bool = False,
        run_type: Optional[str] = None,
        populate: bool = False,
        rank: Union[int, str, None] = None,
    ) -> Dict[str, Any]:
        """Return {child's run id: {metric: value}} of all children; the arguments are those of `Run.get_metrics`."""
        return {
            child.id: child.get_metrics(name, recursive=recursive, run_type=run_type, populate=populate, rank=rank)
            for child in self.get_children()
        }

    def fail(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise HyperDriveNotImplementedException("A sweep cannot be marked as failed. Use cancel() to stop it.")

    def get_diagnostics(self) -> NoReturn:
        raise HyperDriveNotImplementedException(
            "A sweep has no diagnostics. `runyard sweeps show` says what became of each child, and why."
        )

    def _sweep(self) -> SweepReport:
        return self._client.runs.sweep(self.id)


def best_first(trials: Sequence[T], goal: str) -> List[T]:
    """Return trials best first, in the order they were made where they tie; those without a value last."""
    sign = -1.0 if goal == MAXIMIZE else 1.0
    return sorted(trials, key=lambda trial: (_value(trial) is None, sign * (_value(trial) or 0.0)))


def _value(trial: SweepTrial) -> Optional[float]:
    return None if trial["best"] is None else float(trial["best"])
