"""Our records as MLflow's JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runyard.core.records import Experiment
from runyard.core.statuses import RunStatus

ACTIVE, DELETED = "active", "deleted"
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
