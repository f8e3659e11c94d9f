"""Our records as MLflow's JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runyard.core.records import MLFLOW_RUN, Experiment, Run
from runyard.core.statuses import RunStatus
from runyard.store.base import MetricSummary

ACTIVE, DELETED = "active", "deleted"
RUN_ARTIFACTS = "mlflow-artifacts:/runs/"
STATUS_WORDS = {
    **dict.fromkeys(
        (RunStatus.NOT_STARTED, RunStatus.QUEUED, RunStatus.PREPARING, RunStatus.PROVISIONING, RunStatus.STARTING),
        "SCHEDULED",
    ),
    RunStatus.COMPLETED: "FINISHED",
    RunStatus.FAILED: "FAILED",
    RunStatus.CANCELED: "KILLED",
}


def experiment_json(experiment: Experiment) -> dict[str, Any]:
    """Return an experiment; one that is archived is `deleted` in MLflow's words."""
    return {
        "experiment_id": experiment.id,
        "name": experiment.name,
        "artifact_location": f"mlflow-artifacts:/experiments/{experiment.id}",
        "lifecycle_stage": ACTIVE if experiment.archived_at is None else DELETED,
        "creation_time": milliseconds(experiment.created_at),
        "last_update_time": milliseconds(experiment.archived_at or experiment.created_at),
        "tags": tags_json(experiment.tags),
    }


def run_json(run: Run, metrics: Mapping[str, MetricSummary]) -> dict[str, Any]:
    """Return a run with its parameters, tags and last numbers; other metrics are not MLflow's."""
    info: dict[str, object] = {
        "run_id": run.id,
        "run_uuid": run.id,
        "run_name": run.display_name,
        "experiment_id": run.experiment_id,
        "user_id": _user(run),
        "status": status_word(run.status),
        "artifact_uri": f"{RUN_ARTIFACTS}{run.id}",
        "lifecycle_stage": ACTIVE if run.archived_at is None else DELETED,
    }
    if run.started_at is not None:
        info["start_time"] = milliseconds(run.started_at)
    if run.ended_at is not None:
        info["end_time"] = milliseconds(run.ended_at)
    numbers = {name: found.last for name, found in metrics.items() if isinstance(found.last, (int, float))}
    tags = {**run.tags, **system_tags(run)}
    data = {
        "metrics": [{"key": name, "value": number_json(float(value))} for name, value in numbers.items()],
        "params": [{"key": key, "value": value} for key, value in run.parameters.items()],
        "tags": tags_json(tags),
    }
    return {"info": info, "data": data, "inputs": {}}


def system_tags(run: Run) -> dict[str, str]:
    """Return what the run's record says, as the tags in which MLflow keeps it."""
    script = run.spec.script or ""
    found = {
        "mlflow.runName": run.display_name,
        "mlflow.note.content": run.description,
        "mlflow.user": _user(run),
        "mlflow.parentRunId": run.parent_id,
        "mlflow.source.name": script,
        "mlflow.source.type": "JOB" if script else "",
        "mlflow.source.git.commit": run.properties.get("azureml.git.commit"),
        "mlflow.source.git.branch": run.properties.get("azureml.git.branch"),
        "mlflow.source.git.repoURL": run.properties.get("azureml.git.repository_uri"),
    }
    return {key: value for key, value in found.items() if value}


def _user(run: Run) -> str:
    """Return who a client of MLflow says that made its run; of other runs who submitted them."""
    return (run.tags.get("mlflow.user") if run.type == MLFLOW_RUN else None) or run.submitted_by


def tags_json(tags: Mapping[str, str | None]) -> list[dict[str, str]]:
    """Return tags as a list; one of ours that has no value has an empty one."""
    return [{"key": key, "value": value or ""} for key, value in tags.items()]


def status_word(status: RunStatus) -> str:
    """Return MLflow's word for a status; what is neither waiting nor ended is RUNNING."""
    return STATUS_WORDS.get(status, "RUNNING")


def milliseconds(at: datetime) -> int:
    """Return a time as MLflow writes it: milliseconds since 1970."""
    return round(at.timestamp() * 1000)


def number_json(value: float) -> float | str:
    """Return a number for JSON, which lacks NaN and the infinities."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
