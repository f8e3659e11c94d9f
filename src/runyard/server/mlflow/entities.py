"""Our records as MLflow's JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runyard.core.records import Experiment, Run
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
        "user_id": run.submitted_by,
        "status": status_word(run.status),
        "artifact_uri": f"{RUN_ARTIFACTS}{run.id}",
        "lifecycle_stage": ACTIVE if run.archived_at is None else DELETED,
    }
    if run.started_at is not None:
        info["start_time"] = milliseconds(run.started_at)
    if run.ended_at is not None:
        info["end_time"] = milliseconds(run.ended_at)
    numbers = {name: found.last for name, found in metrics.items() if isinstance(found.last, (int, float))}
    system = {"mlflow.runName": run.display_name, "mlflow.user": run.submitted_by, "mlflow.parentRunId": run.parent_id}
    tags = {**run.tags, **{key: value for key, value in system.items() if value}}
    data = {
        "metrics": [{"key": name, "value": number_json(float(value))} for name, value in numbers.items()],
        "params": [{"key": key, "value": value} for key, value in run.parameters.items()],
        "tags": tags_json(tags),
    }
    return {"info": info, "data": data, "inputs": {}}


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
