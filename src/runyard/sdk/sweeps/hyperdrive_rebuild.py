"""The configuration of a sweep that another process submitted, made again from its record."""

from __future__ import annotations

from typing import Any, Dict

from runyard.sdk.exceptions import HyperDriveRehydrateException
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

_SAMPLINGS = (RandomParameterSampling, GridParameterSampling, BayesianParameterSampling)
_POLICIES = (BanditPolicy, MedianStoppingPolicy, TruncationSelectionPolicy)


def rebuild_config(spec: Dict[str, Any]) -> HyperDriveConfig:
    """Return the configuration without what its children run, which only the submitter's object has.

    Raises:
        HyperDriveRehydrateException: the record names a sampling or policy that this version does not know.
    """
    made = HyperDriveConfig.__new__(HyperDriveConfig)
    made.hyperparameter_sampling = _sampling(spec)
    made.primary_metric_name = spec["primary_metric"]
    made.primary_metric_goal = PrimaryMetricGoal(spec["goal"])
    made.max_total_runs = spec["max_total_runs"]
    made.max_concurrent_runs = spec["max_concurrent_runs"]
    made.max_duration_minutes = spec["max_duration_s"] / 60.0
    made.policy = _policy(spec)
    made.estimator = made.run_config = made.custom_run_id = None
    made.resume_from, made.resume_child_runs = [], []
    return made


def _sampling(spec: Dict[str, Any]) -> HyperParameterSampling:
    for kind in _SAMPLINGS:
        if spec["sampling"] == kind.NAME:
            return kind(spec["space"], {"seed": spec["seed"]})
    raise HyperDriveRehydrateException(f"The sampling {spec['sampling']!r} is not known to this version.")


def _policy(spec: Dict[str, Any]) -> EarlyTerminationPolicy:
    if spec["policy"] == NoTerminationPolicy.NAME:
        return NoTerminationPolicy()
    for kind in _POLICIES:
        if spec["policy"] == kind.NAME:
            return kind(**spec["policy_properties"])
    raise HyperDriveRehydrateException(f"The policy {spec['policy']!r} is not known to this version.")
