"""Endpoints of runs. A run that a client makes is a run of ours of type `mlflow`: the client tells its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from runyard.core.errors import Conflict, NotAllowed, NotFound
from runyard.core.names import make_uuid
from runyard.core.records import MLFLOW_RUN, USER_TAG, NewRun, Run, RunChange
from runyard.core.statuses import RunStatus
from runyard.server.access.permissions import RunPrincipal
from runyard.server.mlflow.checks import check_batch, check_key, check_unique
from runyard.server.mlflow.endpoints import Call, Document, endpoint, no_run
from runyard.server.mlflow.entities import (
    ACTIVE,
    ARTIFACT_URI,
    DEFAULT_ID,
    DELETED,
    HIDDEN,
    RUN_NAME,
    random_name,
    run_json,
)
from runyard.server.mlflow.errors import RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.mlflow.experiments import check_active, experiment_of, files_location
from runyard.server.mlflow.metrics import points_of
from runyard.server.mlflow.requests import Fields, missing, wrong
from runyard.server.registry.logged_metrics import log_to_models, models_of
from runyard.store.base import Points

NOTE, PARENT = "mlflow.note.content", "mlflow.parentRunId"
STATUSES = {
    "RUNNING": RunStatus.RUNNING,
    "SCHEDULED": RunStatus.RUNNING,  # nothing of ours schedules it
    "FINISHED": RunStatus.COMPLETED,
    "FAILED": RunStatus.FAILED,
    "KILLED": RunStatus.CANCELED,
}
_NUMBERS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}


@endpoint("POST", "mlflow/runs/create", "create_run", "read_workspace", "put_experiment", "put_workspace", "read_run")
def create_run(call: Call) -> Document:
    """Make a run; its parent is the run that the tag mlflow.parentRunId names."""
    fields = call.fields
    tags = dict(_tag(tag, f"tags[{index}]") for index, tag in enumerate(fields.items("tags")))
    name, tagged = fields.text("run_name", ""), tags.pop(RUN_NAME, "")
    if name and tagged and name != tagged:
        raise MlflowError(
            "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different values "
            f"(run_name='{name}', mlflow.runName='{tagged}')."
        )
    parent_id = tags.get(PARENT)
    parent = None if parent_id is None else call.store.find_run(parent_id)
    if parent is not None and parent.workspace == call.workspace:
        tags.pop(PARENT)
        call.require("create_run", parent.id)
    else:
        parent = None
        call.context.require("create_run", workspace=call.workspace)
    experiment = experiment_of(call, fields.text("experiment_id", DEFAULT_ID))
    check_active(experiment)
    user = fields.text("user_id", "")
    if user:
        tags.setdefault(USER_TAG, user)
    started = None if fields.value("start_time") is None else time_of(fields.integer("start_time"))
    run_id = make_uuid().replace("-", "")
    location = files_location(experiment, run_id)
    run, _is_new = call.store.create_run(
        NewRun(
            key=run_id,
            id=run_id,
            workspace=call.workspace,
            experiment=experiment.name,
            type=MLFLOW_RUN,
            status=RunStatus.RUNNING,
            display_name=name or tagged or random_name(),
            description=tags.pop(NOTE, ""),
            parent_id=None if parent is None else parent.id,
            tags={**tags},
            properties={} if location is None else {ARTIFACT_URI: location},
            started_at=started,
            submitted_by=call.context.user,
            owner=call.context.user,
        )
    )
    return {"run": run_json(run, {})}


@endpoint("GET", "mlflow/runs/get", "read_run", "put_workspace")
def get_run(call: Call) -> Document:
    """Return any run of the workspace."""
    run = call.run("read_run", run_id_of(call.fields))
    experiment = call.store.find_experiment(call.workspace, id=run.experiment_id)
    archived = experiment is not None and experiment.archived_at is not None
    return {"run": run_json(run, call.store.summarize_metrics([run.id]).get(run.id, {}), archived=archived)}


@endpoint("POST", "mlflow/runs/update", "write_run", "put_workspace")
def update_run(call: Call) -> Document:
    """Name a run, and take the status that its client tells; other runs keep theirs."""
    run = active_run(call)
    word, name = call.fields.find_text("status"), call.fields.text("run_name", "")
    ended = None if call.fields.value("end_time") is None else time_of(call.fields.integer("end_time"))
    if word is not None:
        word = _NUMBERS.get(word, word)
        if word not in STATUSES:
            raise wrong("status", word)
        if run.type == MLFLOW_RUN:
            run = call.store.report_status(run.id, STATUSES[word], ended_at=ended)
    if name:
        run = call.store.update_run(run.id, RunChange(display_name=name, tags_remove=[RUN_NAME]))
    return {"run_info": run_json(run, {})["info"]}


@endpoint("POST", "mlflow/runs/delete", "write_run", "put_workspace")
def delete_run(call: Call) -> Document:
    """Archive a run."""
    return _archive(call, True)


@endpoint("POST", "mlflow/runs/restore", "write_run", "put_workspace")
def restore_run(call: Call) -> Document:
    """Bring an archived run back."""
    return _archive(call, False)


def _archive(call: Call, archived: bool) -> Document:
    run = call.run("write_run", run_id_of(call.fields))
    principal = call.context.principal
    if isinstance(principal, RunPrincipal) and principal.run_id == run.id:
        raise NotAllowed("A run's code may not archive its own run.", hint=f"`runyard runs archive {run.id}`")
    call.context.services.engine.archive(run.id, archived)
    return {}


@endpoint("POST", "mlflow/runs/log-metric", "write_run", "put_workspace", "read_workspace", "read_run")
def log_metric(call: Call) -> Document:
    """Store one point; the same point again is no second one."""
    run_id_of(call.fields)
    points, models = points_of([call.fields], ""), models_of(call, [call.fields])
    log_to_models(call, _log(call, points, RunChange()), [call.fields], models)
    return {}


@endpoint("POST", "mlflow/runs/log-parameter", "write_run", "put_workspace")
def log_parameter(call: Call) -> Document:
    """Store a parameter, which never changes."""
    run_id = run_id_of(call.fields)
    key, value = _param(call.fields, "")
    try:
        _log(call, [], RunChange(parameters_log={key: value}))
    except Conflict:
        old = call.store.get_run(run_id).logged_parameters.get(key)
        raise MlflowError(
            f"Changing param values is not allowed. Param with key='{key}' was already logged with value='{old}' for "
            f"run ID='{run_id}'. Attempted logging new value '{value}'."
        ) from None
    return {}


@endpoint("POST", "mlflow/runs/set-tag", "write_run", "put_workspace")
def set_tag(call: Call) -> Document:
    """Set a tag; those of the run's name and note change the name and the description."""
    run_id_of(call.fields)
    key, value = _tag(call.fields, "")
    _log(call, [], _change({key: value}, {}))
    return {}


@endpoint("POST", "mlflow/runs/delete-tag", "write_run", "put_workspace")
def delete_tag(call: Call) -> Document:
    """Remove a tag that the run has."""
    run, key = active_run(call), call.fields.text("key")
    if key == NOTE and run.description:
        change = RunChange(description="")
    elif key == RUN_NAME and run.display_name and key not in run.tags:
        change = RunChange(tags_set={key: HIDDEN})
    elif key in run.tags and key != RUN_NAME:
        change = RunChange(tags_remove=[key])
    else:
        raise MlflowError(f"No tag with name: {key} in run with id {run.id}", RESOURCE_DOES_NOT_EXIST)
    call.store.update_run(run.id, change)
    return {}


@endpoint("POST", "mlflow/runs/log-batch", "write_run", "put_workspace", "read_workspace", "read_run")
def log_batch(call: Call) -> Document:
    """Store parameters, points and tags: all of them or none."""
    fields = call.fields
    run_id_of(fields)
    metrics, params, tags = fields.items("metrics"), fields.items("params"), fields.items("tags")
    check_batch(len(metrics), len(params), len(tags))
    points = points_of(metrics, "metrics")
    logged = [_param(param, f"params[{index}]") for index, param in enumerate(params)]
    tagged = dict(_tag(tag, f"tags[{index}]") for index, tag in enumerate(tags))
    check_unique([key for key, _value in logged])
    models = models_of(call, metrics)
    try:
        run = _log(call, points, _change(tagged, dict(logged)))
    except Conflict:
        raise _changed(call, run_id_of(fields), logged) from None
    log_to_models(call, run, metrics, models)
    return {}


def active_run(call: Call) -> Run:
    """Return the run that a request changes, unless it or its experiment is archived."""
    run = call.run("write_run", run_id_of(call.fields))
    experiment = call.store.find_experiment(call.workspace, id=run.experiment_id)
    _check_run_active(run, experiment is not None and experiment.archived_at is not None)
    return run


def _check_run_active(run: Run, is_archived: bool) -> None:
    if run.archived_at is not None or is_archived:
        raise MlflowError(f"The run {run.id} must be in the '{ACTIVE}' state. Current state is {DELETED}.")


def run_id_of(fields: Fields) -> str:
    """Return the run's id; old clients call it run_uuid."""
    found = fields.text("run_id", "") or fields.text("run_uuid", "")
    if not found:
        raise missing("run_id")
    return found


def time_of(milliseconds: int) -> datetime:
    """Return a time that came as milliseconds since 1970."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise wrong("time", milliseconds) from None


def _log(call: Call, points: Sequence[Points], change: RunChange) -> Run:
    """Store points and a change of the run that a request names, which is looked at where it changes; return it."""
    run_id = run_id_of(call.fields)
    call.require_run("write_run", run_id)

    def check(run: Run, is_archived: bool) -> None:
        call.check_here(run)
        _check_run_active(run, is_archived)

    try:
        return call.store.log(run_id, points, change, check=check)
    except NotFound:
        raise no_run(run_id) from None


def _changed(call: Call, run_id: str, logged: Sequence[tuple[str, str]]) -> MlflowError:
    old = call.store.get_run(run_id).logged_parameters
    changed = [
        {"key": key, "old_value": old[key], "new_value": value} for key, value in logged if old.get(key, value) != value
    ]
    return MlflowError(
        f"Changing param values is not allowed. Params were already logged='{changed}' for run ID='{run_id}'."
    )


def _change(tags: Mapping[str, str], params: Mapping[str, str]) -> RunChange:
    plain = {key: value for key, value in tags.items() if key not in (RUN_NAME, NOTE)}
    return RunChange(
        tags_set=plain or None,
        tags_remove=[RUN_NAME] if tags.get(RUN_NAME) else (),
        display_name=tags.get(RUN_NAME) or None,
        description=tags.get(NOTE),
        parameters_log=params or None,
    )


def _param(fields: Fields, path: str) -> tuple[str, str]:
    """Return a parameter. A long value is kept whole, where MLflow's server would cut it."""
    return check_key(fields.text("key"), f"{path}.key" if path else "key", "Param key"), fields.text("value", "")


def _tag(fields: Fields, path: str) -> tuple[str, str]:
    """Return a tag; of its length as `_param`."""
    prefix = f"{path}." if path else ""
    return check_key(fields.text("key"), f"{prefix}key", f"{prefix}key"), fields.text("value", "")
