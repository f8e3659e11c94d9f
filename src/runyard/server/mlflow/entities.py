"""Our records as MLflow's JSON."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runyard.core.formats.run_inputs import datasets_of, input_models, output_models
from runyard.core.records import GIT_TAGS, USER_TAG, Experiment, Run
from runyard.core.statuses import RunStatus
from runyard.store.base import MetricSummary

ACTIVE, DELETED = "active", "deleted"
DEFAULT_ID, DEFAULT_NAME = "0", "Default"  # the experiment that every MLflow server has
RUN_NAME, HIDDEN = "mlflow.runName", ""  # a client deleted the tag: the run keeps its name, but does not show it as one
ARTIFACT_URI = "mlflow.artifact_uri"  # property of a run whose files its client keeps elsewhere
RUN_ARTIFACTS = "mlflow-artifacts:/runs/"
_KINDS = ("brave", "calm", "clever", "eager", "gentle", "keen", "lively", "quick", "quiet", "steady", "warm", "wise")
_THINGS = (
    "birch",
    "brook",
    "falcon",
    "fern",
    "heron",
    "lark",
    "maple",
    "otter",
    "pebble",
    "river",
    "sparrow",
    "willow",
)
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
        "experiment_id": experiment_id_of(experiment.name, experiment.id),
        "name": experiment.shown_name,
        "artifact_location": experiment.artifact_location or f"mlflow-artifacts:/experiments/{experiment.id}",
        "lifecycle_stage": ACTIVE if experiment.archived_at is None else DELETED,
        "creation_time": milliseconds(experiment.created_at),
        "last_update_time": milliseconds(experiment.changed_at or experiment.archived_at or experiment.created_at),
        "tags": tags_json(experiment.tags),
    }


def experiment_id_of(name: str, id: str) -> str:
    """Return the id that MLflow's clients see of the experiment of that name (not title) and id."""
    return DEFAULT_ID if name == DEFAULT_NAME else id


def run_json(run: Run, metrics: Mapping[str, MetricSummary], *, archived: bool = False) -> dict[str, Any]:
    """Return a run with its parameters, tags and latest points; metrics without numbers are not MLflow's.

    `archived`: its experiment is, so the run is deleted in MLflow's words, whatever its own record says.
    """
    info: dict[str, object] = {
        "run_id": run.id,
        "run_uuid": run.id,
        "run_name": run.display_name,
        "experiment_id": experiment_id_of(run.experiment, run.experiment_id),
        "user_id": run.user,
        "status": status_word(run.status),
        "artifact_uri": run.properties.get(ARTIFACT_URI) or f"{RUN_ARTIFACTS}{run.id}",
        "lifecycle_stage": ACTIVE if run.archived_at is None and not archived else DELETED,
    }
    if run.started_at is not None:
        info["start_time"] = milliseconds(run.started_at)
    if run.ended_at is not None:
        info["end_time"] = milliseconds(run.ended_at)
    tags = {**run.tags, **system_tags(run)}
    if run.tags.get(RUN_NAME) == HIDDEN:
        del tags[RUN_NAME]
    data = {
        "metrics": [
            {
                "key": name,
                "value": number_json(found.latest),
                "timestamp": found.latest_ms or 0,
                "step": found.latest_step or 0,
            }
            for name, found in metrics.items()
            if found.latest is not None
        ],
        "params": [{"key": key, "value": value} for key, value in run.parameters.items()],
        "tags": tags_json(tags),
    }
    return {"info": info, "data": data, "inputs": _inputs_json(run), "outputs": _outputs_json(run)}


def _inputs_json(run: Run) -> dict[str, object]:
    inputs: dict[str, object] = {}
    datasets = datasets_of(run.properties)
    if datasets:
        inputs["dataset_inputs"] = [
            {
                "tags": tags_json(dataset.tags),
                "dataset": {
                    key: getattr(dataset, key)
                    for key in ("name", "digest", "source_type", "source", "schema", "profile")
                    if getattr(dataset, key) is not None
                },
            }
            for dataset in datasets
        ]
    models = input_models(run.properties)
    if models:
        inputs["model_inputs"] = [{"model_id": model_id} for model_id in models]
    return inputs


def _outputs_json(run: Run) -> dict[str, object]:
    models = [{"model_id": model_id, "step": step} for model_id, step in output_models(run.properties)]
    return {"model_outputs": models} if models else {}


def system_tags(run: Run) -> dict[str, str]:
    """Return what the run's record says, as the tags in which MLflow keeps it."""
    script = run.spec.script or ""
    found = {
        RUN_NAME: run.display_name,
        "mlflow.note.content": run.description,
        USER_TAG: run.user,
        "mlflow.parentRunId": run.parent_id,
        "mlflow.source.name": script,
        "mlflow.source.type": "JOB" if script else "",
        **{tag: run.properties.get(name) for tag, name in GIT_TAGS.items()},
    }
    return {key: value for key, value in found.items() if value}


def tags_json(tags: Mapping[str, str | None]) -> list[dict[str, str]]:
    """Return tags as a list; one of ours that has no value has an empty one."""
    return [{"key": key, "value": value or ""} for key, value in tags.items()]


def status_word(status: RunStatus) -> str:
    """Return MLflow's word for a status; what is neither waiting nor ended is RUNNING."""
    return STATUS_WORDS.get(status, "RUNNING")


def random_name() -> str:
    """Return a name for what its maker gave none."""
    return f"{random.choice(_KINDS)}-{random.choice(_THINGS)}-{random.randrange(1000)}"


def milliseconds(at: datetime) -> int:
    """Return a time as MLflow writes it: milliseconds since 1970."""
    return round(at.timestamp() * 1000)


def number_json(value: float) -> float | str:
    """Return a number for JSON, which lacks NaN and the infinities."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
