"""A `HyperDriveConfig` → the frozen SweepSpec, and the tags by which a sweep's run tells what it is."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Optional

from runyard.core.formats.plain import to_plain
from runyard.core.names import check_run_id, make_sweep_id
from runyard.core.specs import DataReferenceSpec, RunSpec
from runyard.core.sweeps import SweepSpec
from runyard.sdk.sweeps.config import HyperDriveConfig

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run

RESUMED = "MODEL_LOCATION"
_SYSTEM = "_aml_system_"


def sweep_run_id(config: HyperDriveConfig) -> str:
    """Return the sweep's run id: `HD_<uuid>`, or the one asked for."""
    if config.custom_run_id is not None:
        return check_run_id(config.custom_run_id)
    return make_sweep_id()


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
