"""Endpoints of what runs read and made: datasets, models, and the models of MLflow 2. All are properties of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from runyard.core.formats.run_inputs import (
    INPUT_MODEL,
    OUTPUT_MODEL,
    DatasetInput,
    dataset_property,
    output_models,
)
from runyard.core.records import Run, RunChange
from runyard.server.mlflow.checks import check_length
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import experiment_id_of
from runyard.server.mlflow.errors import MlflowError
from runyard.server.mlflow.experiments import experiment_of
from runyard.server.mlflow.requests import Fields
from runyard.server.mlflow.runs import active_run

MOST_EXPERIMENTS, MOST_DATASETS = 20, 1000
MOST_NAME, MOST_DIGEST, MOST_SOURCE = 500, 36, 65535
MOST_SCHEMA, MOST_PROFILE = (1 << 20) - 1, (1 << 24) - 1
MOST_TAG_KEY, MOST_TAG_VALUE = 255, 500
HISTORY = "mlflow.log-model.history"
_MODEL_FIELDS = ("artifact_path", "flavors", "utc_time_created", "run_id")


@endpoint("POST", "mlflow/runs/log-inputs", "write_run", "put_workspace")
def log_inputs(call: Call) -> Document:
    """Note the datasets and models that a run reads; one that it has already stays as it is."""
    run = active_run(call)
    datasets = [_dataset(given) for given in call.fields.items("datasets")]
    models = [given.text("model_id") for given in call.fields.items("models")]
    found = dict([dataset_property(dataset) for dataset in reversed(datasets)])
    _note(call, run, {**found, **{f"{INPUT_MODEL}{model_id}": "" for model_id in models}})
    return {}


@endpoint("POST", "mlflow/runs/outputs", "write_run", "put_workspace")
def log_outputs(call: Call) -> Document:
    """Note the models that a run made, with their steps."""
    run = active_run(call)
    if not call.fields.value("models"):
        raise MlflowError("Missing value for required parameter 'models'.")
    known = set(output_models(run.properties))
    new: dict[str, str] = {}
    for given in call.fields.items("models"):
        model_id, step = given.text("model_id"), given.integer("step", 0)
        key = f"{OUTPUT_MODEL}{model_id}"
        if (model_id, step) not in known:
            new[f"{key}.{step}" if key in run.properties or key in new else key] = str(step)
            known.add((model_id, step))
    _note(call, run, new)
    return {}


@endpoint("POST", "mlflow/runs/log-model", "write_run", "put_workspace")
def log_model(call: Call) -> Document:
    """Add what MLflow 2 says of a model to the run's tag."""
    run, text = active_run(call), call.fields.text("model_json")
    try:
        model = json.loads(text)
    except (ValueError, RecursionError):
        raise MlflowError(f"Malformed model info. \n {text[:1000]} \n is not a valid JSON.") from None
    absent = {name for name in _MODEL_FIELDS if not isinstance(model, dict) or name not in model}
    if absent:
        raise MlflowError(f"Model json is missing mandatory fields: {absent}")
    try:
        history = json.loads(run.tags.get(HISTORY) or "[]")
    except ValueError:  # a client may write the tag as it likes
        history = []
    history = [*history, model] if isinstance(history, list) else [model]
    call.store.update_run(run.id, RunChange(tags_set={HISTORY: json.dumps(history)}))
    return {}


@endpoint("POST", "mlflow/experiments/search-datasets", "list_runs", "read_workspace", "put_workspace")
def search_datasets(call: Call) -> Document:
    """Return the datasets that runs of some experiments read, each once for what it was used for."""
    call.require("list_runs")
    ids = call.fields.texts("experiment_ids")
    if not ids:
        raise MlflowError("SearchDatasets request must specify at least one experiment_id.")
    if len(ids) > MOST_EXPERIMENTS:
        raise MlflowError(
            f"SearchDatasets request cannot specify more than {MOST_EXPERIMENTS} experiment_ids. Received {len(ids)} "
            "experiment_ids."
        )
    experiments = [experiment_of(call, experiment_id) for experiment_id in dict.fromkeys(ids)]
    shown = {found.id: experiment_id_of(found.name, found.id) for found in experiments}
    rows = []
    for experiment_id, dataset in call.store.list_datasets(call.workspace, [*shown], limit=MOST_DATASETS):
        row = {"experiment_id": shown[experiment_id], "name": dataset.name, "digest": dataset.digest}
        rows.append(row if dataset.context is None else {**row, "context": dataset.context})
    return {"dataset_summaries": rows} if rows else {}


def _note(call: Call, run: Run, properties: Mapping[str, str]) -> None:
    new = {key: text for key, text in properties.items() if key not in run.properties}
    if new:
        call.store.update_run(run.id, RunChange(properties_add=new))


def _dataset(given: Fields) -> DatasetInput:
    fields = given.find_fields("dataset")
    if fields is None:
        raise MlflowError("Dataset cannot be None")
    schema, profile = fields.find_text("schema"), fields.find_text("profile")
    return DatasetInput(
        name=_required(fields, "name", MOST_NAME),
        digest=_required(fields, "digest", MOST_DIGEST),
        source_type=_required(fields, "source_type", MOST_NAME),
        source=_required(fields, "source", MOST_SOURCE),
        schema=None if schema is None else check_length(schema, "schema", MOST_SCHEMA),
        profile=None if profile is None else check_length(profile, "profile", MOST_PROFILE),
        tags=_tags(given.items("tags")),
    )


def _required(fields: Fields, name: str, most: int) -> str:
    if fields.value(name) is None:
        raise MlflowError(f"Dataset {name} cannot be None")
    return check_length(fields.text(name, ""), name, most)


def _tags(given: Sequence[Fields]) -> dict[str, str]:
    return {
        check_length(tag.text("key"), "key", MOST_TAG_KEY): check_length(tag.text("value", ""), "value", MOST_TAG_VALUE)
        for tag in given
    }
