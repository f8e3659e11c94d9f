"""Endpoints of runs. A run that a client makes is a run of ours of type `mlflow`: the client tells its status."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from runyard.core.errors import Conflict, NotAllowed
from runyard.core.names import make_uuid
from runyard.core.records import MLFLOW_RUN, NewRun, Run, RunChange
from runyard.core.statuses import RunStatus
from runyard.server.access.permissions import RunPrincipal
from runyard.server.mlflow.checks import MOST_PARAM, MOST_TAG, check_batch, check_key, check_length, check_unique
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import ACTIVE, DELETED, run_json
from runyard.server.mlflow.errors import RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.mlflow.experiments import experiment_of
from runyard.server.mlflow.metrics import points_of
from runyard.server.mlflow.requests import Fields, missing, wrong

RUN_NAME, NOTE, PARENT, USER = "mlflow.runName", "mlflow.note.content", "mlflow.parentRunId", "mlflow.user"
STATUSES = {
    "RUNNING": RunStatus.RUNNING,
    "SCHEDULED": RunStatus.RUNNING,  # nothing of ours schedules it
    "FINISHED": RunStatus.COMPLETED,
    "FAILED": RunStatus.FAILED,
    "KILLED": RunStatus.CANCELED,
}
_NUMBERS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
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
    experiment = experiment_of(call, fields.text("experiment_id", "0"))
    if experiment.archived_at is not None:
        raise MlflowError(f"The experiment {experiment.id} must be in the 'active' state. Current state is {DELETED}.")
    user = fields.text("user_id", "")
    if user:
        tags.setdefault(USER, user)
    started = fields.integer("start_time", 0)
    run_id = make_uuid().replace("-", "")
    run, _is_new = call.store.create_run(
        NewRun(
            key=run_id,
            id=run_id,
            workspace=call.workspace,
            experiment=experiment.name,
            type=MLFLOW_RUN,
            status=RunStatus.RUNNING,
            display_name=name or tagged or _random_name(),
            description=tags.pop(NOTE, ""),
            parent_id=None if parent is None else parent.id,
            tags={**tags},
            started_at=time_of(started) if started else None,
            submitted_by=call.context.user,
            owner=call.context.user,
        )
    )
    return {"run": run_json(run, {})}


@endpoint("GET", "mlflow/runs/get", "read_run", "put_workspace")
def get_run(call: Call) -> Document:
    """Return any run of the workspace."""
    run = call.run("read_run", run_id_of(call.fields))
    return {"run": run_json(run, call.store.summarize_metrics([run.id]).get(run.id, {}))}


@endpoint("POST", "mlflow/runs/update", "write_run", "put_workspace")
def update_run(call: Call) -> Document:
    """Name a run, and take the status that its client tells; other runs keep theirs."""
    run = active_run(call)
    word, name = call.fields.find_text("status"), call.fields.text("run_name", "")
    ended = call.fields.integer("end_time", 0)
    if word is not None:
        word = _NUMBERS.get(word, word)
        if word not in STATUSES:
            raise wrong("status", word)
        if run.type == MLFLOW_RUN:
            run = call.store.report_status(run.id, STATUSES[word], ended_at=time_of(ended) if ended else None)
    if name:
        run = call.store.update_run(run.id, RunChange(display_name=name))
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
    if isinstance(call.context.principal, RunPrincipal):
        raise NotAllowed("A run's code may not archive runs.", hint=f"`runyard runs archive {run.id}`")
    call.context.services.engine.archive(run.id, archived)
    return {}


@endpoint("POST", "mlflow/runs/log-metric", "write_run", "put_workspace")
def log_metric(call: Call) -> Document:
    """Store one point; the same point again is no second one."""
    call.store.log(active_run(call).id, points_of([call.fields], ""), RunChange())
    return {}


@endpoint("POST", "mlflow/runs/log-parameter", "write_run", "put_workspace")
def log_parameter(call: Call) -> Document:
    """Store a parameter, which never changes."""
    run = active_run(call)
    key, value = _param(call.fields, "")
    try:
        call.store.log(run.id, [], RunChange(parameters_log={key: value}))
    except Conflict:
        old = call.store.get_run(run.id).logged_parameters.get(key)
        raise MlflowError(
            f"Changing param values is not allowed. Param with key='{key}' was already logged with value='{old}' for "
            f"run ID='{run.id}'. Attempted logging new value '{value}'."
        ) from None
    return {}


@endpoint("POST", "mlflow/runs/set-tag", "write_run", "put_workspace")
def set_tag(call: Call) -> Document:
    """Set a tag; those of the run's name and note change the name and the description."""
    run = active_run(call)
    key, value = _tag(call.fields, "")
    call.store.log(run.id, [], _change({key: value}, {}))
    return {}


@endpoint("POST", "mlflow/runs/delete-tag", "write_run", "put_workspace")
def delete_tag(call: Call) -> Document:
    """Remove a tag that the run has."""
    run, key = active_run(call), call.fields.text("key")
    change = RunChange(description="") if key == NOTE and run.description else RunChange(tags_remove=[key])
    if key not in run.tags and not (key == NOTE and run.description):
        raise MlflowError(f"No tag with name: {key} in run with id {run.id}", RESOURCE_DOES_NOT_EXIST)
    call.store.update_run(run.id, change)
    return {}


@endpoint("POST", "mlflow/runs/log-batch", "write_run", "put_workspace")
def log_batch(call: Call) -> Document:
    """Store parameters, points and tags: all of them or none."""
    fields = call.fields
    run_id_of(fields)
    metrics, params, tags = fields.items("metrics"), fields.items("params"), fields.items("tags")
    points = points_of(metrics, "metrics")
    logged = [_param(param, f"params[{index}]") for index, param in enumerate(params)]
    tagged = dict(_tag(tag, f"tags[{index}]") for index, tag in enumerate(tags))
    check_batch(len(metrics), len(params), len(tags))
    check_unique([key for key, _value in logged])
    run = active_run(call)
    try:
        call.store.log(run.id, points, _change(tagged, dict(logged)))
    except Conflict:
        raise _changed(call, run.id, logged) from None
    return {}


def active_run(call: Call) -> Run:
    """Return the run that a request changes, unless it is archived."""
    run = call.run("write_run", run_id_of(call.fields))
    if run.archived_at is not None:
        raise MlflowError(f"The run {run.id} must be in the '{ACTIVE}' state. Current state is {DELETED}.")
    return run


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
        display_name=tags.get(RUN_NAME) or None,
        description=tags.get(NOTE),
        parameters_log=params or None,
    )


def _param(fields: Fields, path: str) -> tuple[str, str]:
    key = check_key(fields.text("key"), f"{path}.key" if path else "key", "Param key")
    return key, check_length(fields.text("value", ""), "Param value", MOST_PARAM)


def _tag(fields: Fields, path: str) -> tuple[str, str]:
    prefix = f"{path}." if path else ""
    key = check_key(fields.text("key"), f"{prefix}key", f"{prefix}key")
    return key, check_length(fields.text("value", ""), f"{prefix}value", MOST_TAG)


def _random_name() -> str:
    return f"{random.choice(_KINDS)}-{random.choice(_THINGS)}-{random.randrange(1000)}"
