"""Logged models of MLflow 3: one asset each, named by its id. What the client's plug-in noted on a run is read too.

A model that was logged in a run lies in the run's own files, below its name; a second one of that name below
`models/<id>`. A model without a run keeps its files itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from runyard.core.errors import NotFound
from runyard.core.formats.filters import PRESENT, Comparison
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.records import LOGGED_MODEL, Asset, Run, RunFile
from runyard.server.http.model_files import WHOLE_RUN, ModelFiles, files_of_run
from runyard.server.mlflow.endpoints import Call, Document
from runyard.server.mlflow.entities import RUN_ARTIFACTS, experiment_id_of, milliseconds, number_json, tags_json
from runyard.server.mlflow.errors import RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.store.base import RunSearch
from runyard.store.record_limits import check_labels

MODELS = "mlflow-artifacts:/models/"
PENDING, READY, FAILED = "LOGGED_MODEL_PENDING", "LOGGED_MODEL_READY", "LOGGED_MODEL_UPLOAD_FAILED"
STATUSES = {"PENDING": PENDING, "READY": READY, "FAILED": FAILED}  # as filters and the client's plug-in say them
_ID = re.compile(r"m-[0-9A-Za-z_\-]{1,100}")
_PROPERTY = "mlflow.model."


@dataclass(frozen=True)
class ModelMetric:
    """A point that was logged for a model. `value` is a text where JSON lacks the number."""

    key: str
    value: float | str
    timestamp: int
    step: int
    run_id: str
    dataset_name: str = ""
    dataset_digest: str = ""

    @property
    def number(self) -> float:
        """The value as a number."""
        return float(self.value)


@dataclass(frozen=True)
class LoggedDocument:
    """What is stored of a logged model. `folder`: below which its run has its files."""

    experiment_id: str
    name: str
    model_type: str | None = None
    source_run_id: str = ""
    folder: str = ""
    location: str = ""  # where its client keeps the files, when that is not here
    status: str = PENDING
    status_message: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: list[ModelMetric] = field(default_factory=list)
    files: list[RunFile] = field(default_factory=list)
    deleted: bool = False
    is_noted: bool = False  # the properties of its run say more


@dataclass(frozen=True)
class LoggedModel:
    """A logged model. `run`: the run whose properties say all that is known of it; None where an asset does."""

    id: str
    created_at: datetime
    updated_at: datetime
    owner: str | None
    document: LoggedDocument
    run: Run | None = None

    @property
    def name(self) -> str:
        """The name that its maker gave it."""
        return self.document.name

    @property
    def source_run_id(self) -> str:
        """The run that logged it; empty for none."""
        return self.document.source_run_id

    @property
    def folder(self) -> str:
        """Where its files are in the files of its run."""
        return self.document.folder

    @property
    def artifact_uri(self) -> str:
        """Where clients put and get its files."""
        if self.folder:
            return f"{RUN_ARTIFACTS}{self.source_run_id}/{self.folder}"
        return self.document.location or f"{MODELS}{self.id}"

    def files(self, call: Call) -> ModelFiles:
        """Return its files, named below its name."""
        if not self.folder:
            files = [replace(file, name=f"{self.name}/{file.name}") for file in self.document.files]
            return ModelFiles(self.name, True, files)
        run = call.store.find_run(self.source_run_id)
        if run is None or run.workspace != call.workspace:
            return ModelFiles(self.name, True, [])
        found, base = files_of_run(call.context.services, run, self.folder), self.folder.rpartition("/")[2]
        files = [replace(file, name=self.name + file.name[len(base) :]) for file in found.files]
        return ModelFiles(self.name, found.is_folder, files)

    def experiment_name(self, call: Call) -> str:
        """Return the name of its experiment, empty when it is gone."""
        experiments = call.store.list_experiments(call.workspace, view="All")
        return next(
            (one.name for one in experiments if experiment_id_of(one.name, one.id) == self.document.experiment_id), ""
        )


def get_logged(call: Call, model_id: str, *, with_deleted: bool = False) -> LoggedModel:
    """Return a logged model that the principal may read.

    Raises:
        MlflowError: there is none.
    """
    found = find_logged(call, model_id, with_deleted=with_deleted)
    if found is None:
        raise MlflowError(f"Logged model with ID '{model_id[:200]}' not found.", RESOURCE_DOES_NOT_EXIST)
    return found


def find_logged(call: Call, model_id: str, *, with_deleted: bool = False) -> LoggedModel | None:
    """Return a logged model that the principal may read, None where there is none."""
    call.require("read_workspace")
    if not _ID.fullmatch(model_id):
        return None
    try:
        found: LoggedModel | None = _with_notes(
            call, model_of(call.store.get_asset(call.workspace, LOGGED_MODEL, model_id))
        )
    except NotFound:
        found = _find_in_runs(call, model_id)
    if found is None or (found.document.deleted and not with_deleted):
        return None
    if found.folder:
        call.require("read_run", found.source_run_id)
    return found


def model_of(asset: Asset) -> LoggedModel:
    """Return the logged model that an asset is."""
    document = from_plain(LoggedDocument, asset.document)
    return LoggedModel(asset.name, asset.created_at, asset.updated_at, asset.owner, document)


def models_of_run(run: Run) -> list[LoggedModel]:
    """Return the logged models that a run's properties tell of."""
    facts: dict[str, dict[str, str]] = {}
    for key, value in run.properties.items():
        if key.startswith(f"{_PROPERTY}m-"):
            model_id, _, fact = key[len(_PROPERTY) :].partition(".")
            facts.setdefault(model_id, {})[fact] = value
    return [_model_of_facts(run, model_id, known) for model_id, known in facts.items() if "" in known]


def edit_logged(
    call: Call, model: LoggedModel, edit: Callable[[LoggedDocument], LoggedDocument], *, stamp: bool = True
) -> LoggedModel:
    """Change what is stored of a logged model, for who may. One that only its run tells of gets a document."""
    require_change(call, model)
    return note_logged(call, model, edit, stamp=stamp)


def note_logged(
    call: Call, model: LoggedModel, edit: Callable[[LoggedDocument], LoggedDocument], *, stamp: bool = True
) -> LoggedModel:
    """The same, as the server's own note: whoever caused it need not be allowed to change the model."""
    if model.run is not None:
        document = to_plain(replace(model.document, is_noted=True))
        call.store.put_asset(call.workspace, LOGGED_MODEL, model.id, document, key="logged", owner=model.owner)

    def changed(asset: Asset) -> Document:
        document = edit(from_plain(LoggedDocument, asset.document))
        check_labels(f"The logged model `{asset.name}`", document.tags, document.params)
        plain: Document = to_plain(document)
        return plain

    return model_of(call.store.edit_asset(call.workspace, LOGGED_MODEL, model.id, changed, stamp=stamp))


def require_change(call: Call, model: LoggedModel) -> None:
    """Raise unless the principal may change a logged model: as its run, or as its own maker where it has none."""
    if model.folder:
        call.require("add_file", model.source_run_id)
    else:
        call.require("change_model", owner=model.owner)


def logged_json(model: LoggedModel) -> Document:
    """Return a logged model as MLflow's JSON."""
    document = model.document
    info: Document = {
        "experiment_id": document.experiment_id,
        "model_id": model.id,
        "name": document.name,
        "artifact_uri": model.artifact_uri,
        "creation_timestamp_ms": milliseconds(model.created_at),
        "last_updated_timestamp_ms": milliseconds(model.updated_at),
        "model_type": document.model_type,
        "source_run_id": document.source_run_id,
        "status": document.status,
        "status_message": document.status_message or None,
        "tags": tags_json(document.tags),
    }
    data = {
        "params": [{"key": key, "value": value} for key, value in document.params.items()],
        "metrics": [_metric_json(model.id, metric) for metric in document.metrics],
    }
    return {"info": _filled(info), "data": _filled(data)}


def _find_in_runs(call: Call, model_id: str) -> LoggedModel | None:
    present = Comparison("properties", PRESENT, None, f"{_PROPERTY}{model_id}")
    ids = [experiment.id for experiment in call.store.list_experiments(call.workspace, view="All")]
    for run in call.store.search_runs(RunSearch(call.workspace, ids, [present], view="all", limit=1)):
        return next((model for model in models_of_run(run) if model.id == model_id), None)
    return None


def _with_notes(call: Call, model: LoggedModel) -> LoggedModel:
    if not model.document.is_noted:
        return model
    run = call.store.find_run(model.source_run_id)
    noted = next((one for one in models_of_run(run) if one.id == model.id), None) if run is not None else None
    if noted is None:
        return model
    document, facts = model.document, noted.document
    status = facts.status if document.status == PENDING else document.status
    tags, params = {**facts.tags, **document.tags}, {**facts.params, **document.params}
    return replace(model, document=replace(document, status=status, tags=tags, params=params))


def _model_of_facts(run: Run, model_id: str, facts: Mapping[str, str]) -> LoggedModel:
    name = facts[""] or WHOLE_RUN
    document = LoggedDocument(
        experiment_id=experiment_id_of(run.experiment, run.experiment_id),
        name=name,
        model_type=facts.get("type"),
        source_run_id=run.id,
        folder=name,
        status=STATUSES.get(facts.get("status", ""), PENDING),
        tags=_below("tag.", facts),
        params=_below("param.", facts),
    )
    return LoggedModel(model_id, run.created_at, run.created_at, run.owner, document, run)


def _below(prefix: str, facts: Mapping[str, str]) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in facts.items() if key.startswith(prefix)}


def _metric_json(model_id: str, metric: ModelMetric) -> Document:
    answer = {**to_plain(metric), "model_id": model_id, "value": number_json(metric.number)}
    return {key: value for key, value in answer.items() if value != ""}


def _filled(fields: Document) -> Document:
    return {key: value for key, value in fields.items() if value is not None and value != []}
