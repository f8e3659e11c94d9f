"""Endpoints of logged models: the models of MLflow 3, before anybody registers them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from runyard.core.errors import Conflict
from runyard.core.formats.plain import to_plain
from runyard.core.names import RUN_ID
from runyard.core.records import LOGGED_MODEL, Run, RunChange
from runyard.server.mlflow.checks import MOST_PARAM, MOST_TAG, check_key, check_length
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import experiment_id_of, random_name
from runyard.server.mlflow.errors import RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.mlflow.experiments import check_active, files_location, kept_experiment
from runyard.server.mlflow.requests import Fields, wrong
from runyard.server.registry.logged_records import (
    FAILED,
    PENDING,
    READY,
    LoggedDocument,
    LoggedModel,
    edit_logged,
    get_logged,
    logged_json,
    model_of,
)
from runyard.store.record_limits import check_labels

PLACE = "mlflow/logged-models"
READ = ("read_workspace", "read_run", "put_workspace")
CHANGE = ("read_workspace", "read_run", "add_file", "change_model", "put_asset", "put_workspace")
FOLDER_PROPERTY = "mlflow.logged_model."  # of runs: the logged model whose files are in the folder of that name
_BAD_CHARACTERS = ("/", ":", ".", "%", '"', "'")
_STATUSES = {"1": PENDING, "2": READY, "3": FAILED}


@endpoint("POST", PLACE, *CHANGE, "put_experiment")
def create_logged_model(call: Call) -> Document:
    """Make a logged model, pending until its client has sent its files."""
    call.require("put_asset")
    fields = call.fields
    name, run_id = fields.find_text("name"), fields.text("source_run_id", "")
    if name and any(mark in name for mark in _BAD_CHARACTERS):
        raise MlflowError(
            f"Invalid model name ({name[:300]!r}) provided. Model name must be a non-empty string and cannot contain "
            f"the following characters: {_BAD_CHARACTERS}"
        )
    experiment = kept_experiment(call, fields.text("experiment_id"))
    check_active(experiment)
    model_id = f"m-{uuid.uuid4().hex}"
    name = name or random_name()
    document = LoggedDocument(
        experiment_id=experiment_id_of(experiment.name, experiment.id),
        name=name,
        model_type=fields.text("model_type", ""),
        source_run_id=run_id,
        location=files_location(experiment, f"models/{model_id}") or "",
        tags=_pairs(fields.items("tags"), MOST_TAG),
        params=_pairs(fields.items("params"), MOST_PARAM),
    )
    check_labels(f"The logged model `{name}`", document.tags, document.params)
    run = _source_run(call, run_id)
    if run is not None and not document.location:
        document = replace(document, folder=_claim_folder(call, run, name, model_id))
    asset, _ = call.store.put_asset(
        call.workspace, LOGGED_MODEL, model_id, to_plain(document), key="logged", owner=call.context.user
    )
    return {"model": logged_json(model_of(asset))}


@endpoint("GET", f"{PLACE}/{{model_id}}", *READ)
def get_logged_model(call: Call) -> Document:
    """Return a logged model."""
    with_deleted = call.fields.text("allow_deleted", "false").lower() == "true"
    return {"model": logged_json(get_logged(call, call.path["model_id"], with_deleted=with_deleted))}


@endpoint("PATCH", f"{PLACE}/{{model_id}}", *CHANGE)
def finalize_logged_model(call: Call) -> Document:
    """Say that a logged model is complete, or that its upload failed."""
    status = str(call.fields.value("status") or "")
    status = _STATUSES.get(status, status)
    if status not in _STATUSES.values():
        raise wrong("status", status)
    changed = edit_logged(call, _model(call), lambda document: replace(document, status=status))
    return {"model": logged_json(changed)}


@endpoint("DELETE", f"{PLACE}/{{model_id}}", *CHANGE)
def delete_logged_model(call: Call) -> Document:
    """Delete a logged model. What its run has of it stays in the run."""
    edit_logged(call, _model(call), lambda document: replace(document, deleted=True, files=[]))
    call.context.services.collecting.note()
    return {}


@endpoint("PATCH", f"{PLACE}/{{model_id}}/tags", *CHANGE)
def set_logged_model_tags(call: Call) -> Document:
    """Set tags of a logged model."""
    tags = _pairs(call.fields.items("tags"), MOST_TAG)
    edit_logged(call, _model(call), lambda document: replace(document, tags={**document.tags, **tags}), stamp=False)
    return {}


@endpoint("DELETE", f"{PLACE}/{{model_id}}/tags/{{key:path}}", *CHANGE)
def delete_logged_model_tag(call: Call) -> Document:
    """Remove a tag that a logged model has."""
    model, key = _model(call), call.path["key"]
    if key not in model.document.tags:
        raise MlflowError(
            f"No tag with key {key[:250]!r} found for model with ID {model.id!r}.", RESOURCE_DOES_NOT_EXIST
        )
    edit_logged(
        call,
        model,
        lambda document: replace(document, tags={tag: value for tag, value in document.tags.items() if tag != key}),
        stamp=False,
    )
    return {}


@endpoint("POST", f"{PLACE}/{{model_id}}/params", *CHANGE)
def log_logged_model_params(call: Call) -> Document:
    """Store parameters of a logged model, which never change."""
    new = _pairs(call.fields.items("params"), MOST_PARAM)

    def edit(document: LoggedDocument) -> LoggedDocument:
        for key, value in new.items():
            if document.params.get(key, value) != value:
                raise MlflowError(
                    f"Changing param values is not allowed. Param with key='{key}' was already logged with "
                    f"value='{document.params[key]}' for model ID='{call.path['model_id']}'. Attempted logging new "
                    f"value '{value}'."
                )
        return replace(document, params={**document.params, **new})

    edit_logged(call, _model(call), edit, stamp=False)
    return {}


def _model(call: Call) -> LoggedModel:
    return get_logged(call, call.path["model_id"])


def _source_run(call: Call, run_id: str) -> Run | None:
    """Return the run that logs a model, when it is one of this workspace that the principal may add files to."""
    if not RUN_ID.fullmatch(run_id):
        return None
    run = call.store.find_run(run_id)
    call.require("add_file", run_id)
    return run if run is not None and run.workspace == call.workspace else None


def _claim_folder(call: Call, run: Run, name: str, model_id: str) -> str:
    """Return where in the run's files a model goes: below its name, unless something is there or comes there."""
    files = call.store.list_files(run.id, with_chunks=False)
    if not any(file.name == name or file.name.startswith(f"{name}/") for file in files):
        try:
            call.store.update_run(run.id, RunChange(properties_add={f"{FOLDER_PROPERTY}{name}": model_id}))
            return name
        except Conflict:
            pass
    return f"models/{model_id}"


def _pairs(items: Sequence[Fields], most: int) -> dict[str, str]:
    return {
        check_key(item.text("key"), "name", "key"): check_length(item.text("value", ""), "value", most)
        for item in items
    }
