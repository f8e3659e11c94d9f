"""Endpoints of experiments. An experiment that MLflow deletes is archived here, so it can be restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from runyard.core.errors import Conflict
from runyard.core.records import Experiment
from runyard.server.mlflow.checks import MOST_EXPERIMENT_TAG, check_key, check_length
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import DEFAULT_ID, DEFAULT_NAME, experiment_id_of, experiment_json
from runyard.server.mlflow.errors import RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.mlflow.requests import Fields

MOST_NAME = 500
MOST_LOCATION = 2048
_OURS = "mlflow-artifacts:"  # files that this server keeps


@endpoint("GET", "mlflow/experiments/get", "read_workspace", "put_workspace")
def get_experiment(call: Call) -> Document:
    """Return an experiment by its id; `0` is `Default`, which every workspace shows."""
    return {"experiment": experiment_json(experiment_of(call, call.fields.text("experiment_id")))}


@endpoint("GET", "mlflow/experiments/get-by-name", "read_workspace", "put_workspace")
def get_experiment_by_name(call: Call) -> Document:
    """Return an experiment by its name, an archived one too."""
    call.require("read_workspace")
    name = call.fields.text("experiment_name")
    found = find_by_name(call, name)
    if found is None:
        raise MlflowError(f"Could not find experiment with name '{name[:500]}'", RESOURCE_DOES_NOT_EXIST)
    return {"experiment": experiment_json(found)}


@endpoint("POST", "mlflow/experiments/create", "put_experiment", "read_workspace", "put_workspace")
def create_experiment(call: Call) -> Document:
    """Make an experiment with its tags; a name that is taken is refused, an archived experiment's too."""
    call.require("put_experiment")
    name = _checked_name(call.fields.text("name"), "name")
    location = call.fields.text("artifact_location", "")
    tags = dict(_tag(tag, f"tags[{index}].") for index, tag in enumerate(call.fields.items("tags")))
    _check_location(location)
    try:
        if find_by_name(call, name) is not None:
            raise Conflict(name)
        made = call.store.create_experiment(
            call.workspace, name, owner=call.context.user, tags=tags, artifact_location=location or None
        )
    except Conflict:
        raise _is_taken(name) from None
    return {"experiment_id": experiment_id_of(made.name, made.id)}


@endpoint("POST", "mlflow/experiments/update", "update_experiment", "read_workspace", "put_experiment", "put_workspace")
def update_experiment(call: Call) -> Document:
    """Give an experiment another name: its title, as its own name stays."""
    name = _checked_name(call.fields.text("new_name"), "name")
    experiment = kept_experiment(call, call.fields.text("experiment_id"))
    call.require("update_experiment", owner=experiment.owner)
    if experiment.archived_at is not None:
        raise MlflowError("Cannot rename a non-active experiment.", "INVALID_STATE")
    taken = find_by_name(call, name)
    if taken is not None and taken.id != experiment.id:
        raise _is_taken(name)
    try:
        call.store.update_experiment(call.workspace, experiment.name, title=name)
    except Conflict:
        raise _is_taken(name) from None
    return {}


@endpoint("POST", "mlflow/experiments/delete", "update_experiment", "read_workspace", "put_experiment", "put_workspace")
def delete_experiment(call: Call) -> Document:
    """Archive an experiment."""
    return _update(call, archived=True)


@endpoint(
    "POST", "mlflow/experiments/restore", "update_experiment", "read_workspace", "put_experiment", "put_workspace"
)
def restore_experiment(call: Call) -> Document:
    """Bring an archived experiment back."""
    return _update(call, archived=False)


@endpoint(
    "POST",
    "mlflow/experiments/set-experiment-tag",
    "update_experiment",
    "read_workspace",
    "put_experiment",
    "put_workspace",
)
def set_experiment_tag(call: Call) -> Document:
    """Set a tag of an experiment."""
    key, value = _tag(call.fields, "")
    return _update(call, tags_set={key: value})


@endpoint(
    "POST",
    "mlflow/experiments/delete-experiment-tag",
    "update_experiment",
    "read_workspace",
    "put_experiment",
    "put_workspace",
)
def delete_experiment_tag(call: Call) -> Document:
    """Remove a tag that an experiment has."""
    key = call.fields.text("key")
    experiment = experiment_of(call, call.fields.text("experiment_id"))
    if key not in experiment.tags:
        raise MlflowError(
            f"No tag with name: {key[:250]} in experiment with id {experiment.id}", RESOURCE_DOES_NOT_EXIST
        )
    return _update(call, tags_remove=[key])


def _update(
    call: Call,
    *,
    archived: bool | None = None,
    tags_set: Mapping[str, str | None] | None = None,
    tags_remove: Sequence[str] = (),
) -> Document:
    experiment = kept_experiment(call, call.fields.text("experiment_id"))
    call.require("update_experiment", owner=experiment.owner)
    if archived is None:
        check_active(experiment)
    elif (experiment.archived_at is not None) == archived:  # each only finds what it can change
        raise _no_experiment(call.fields.text("experiment_id"))
    call.store.update_experiment(
        call.workspace, experiment.name, archived=archived, tags_set=tags_set, tags_remove=tags_remove
    )
    return {}


def check_active(experiment: Experiment) -> None:
    """Raises: MlflowError: the experiment is archived."""
    if experiment.archived_at is not None:
        shown = experiment_id_of(experiment.name, experiment.id)
        raise MlflowError(f"The experiment {shown} must be in the 'active' state. Current state is deleted.")


def experiment_of(call: Call, experiment_id: str) -> Experiment:
    """Return the experiment with that id, archived or not, when the principal may read it.

    `0` is `Default`: of a workspace that has none yet, one that is shown and not stored.
    """
    call.require("read_workspace")
    if experiment_id == DEFAULT_ID:
        return _find_default(call) or _shown_default(call)
    found = call.store.find_experiment(call.workspace, id=experiment_id)
    if found is None:
        raise _no_experiment(experiment_id)
    return found


def kept_experiment(call: Call, experiment_id: str) -> Experiment:
    """Return the experiment as `experiment_of`; `Default` is made now where it was only shown."""
    found = experiment_of(call, experiment_id)
    if found.id != DEFAULT_ID:
        return found
    call.require("put_experiment")
    return call.store.put_experiment(call.workspace, DEFAULT_NAME, owner=call.context.user)


def find_by_name(call: Call, name: str) -> Experiment | None:
    """Return the experiment that clients see under that name, archived or not."""
    found = call.store.find_experiment(call.workspace, title=name)
    if found is None and name == DEFAULT_NAME and _find_default(call) is None:
        return _shown_default(call)
    return found


def list_shown(call: Call, view: str) -> list[Experiment]:
    """Return the experiments of a view of `RunStore.list_experiments`, `Default` among them before it is stored."""
    found = call.store.list_experiments(call.workspace, view=view)
    if view != "ArchivedOnly" and _find_default(call) is None:
        return [*found, _shown_default(call)]
    return found


def files_location(experiment: Experiment, place: str) -> str | None:
    """Return where a client keeps the files of a run or a logged model that it makes; None: on this server."""
    location = experiment.artifact_location
    if location is None or location.startswith(_OURS):
        return None
    parts = urlsplit(location)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{place}/artifacts"))


def _find_default(call: Call) -> Experiment | None:
    found = call.store.list_experiments(call.workspace, view="All", name=DEFAULT_NAME)
    return found[0] if found and found[0].name == DEFAULT_NAME else None


def _shown_default(call: Call) -> Experiment:
    workspace = call.store.get_workspace(call.workspace)
    return Experiment(DEFAULT_ID, DEFAULT_NAME, call.workspace, workspace.created_at)


def _checked_name(name: str, field: str) -> str:
    if not name.strip():
        raise MlflowError(f"Invalid experiment name: '{name[:MOST_NAME]}'")
    return check_length(name, field, MOST_NAME)


def _check_location(location: str) -> None:
    if location.startswith("runs:"):
        raise MlflowError(f"Artifact location cannot be a runs:/ URI. Given: '{location[:200]}'")
    if "#" in location or ";" in location.rpartition("/")[2]:
        raise MlflowError("'artifact_location' URL can't include fragments or params.")
    if ".." in urlsplit(location).query:
        raise MlflowError("Invalid query string: '..' is not allowed")
    check_length(location, "artifact_location", MOST_LOCATION)


def _tag(fields: Fields, path: str) -> tuple[str, str]:
    key = check_key(fields.text("key"), f"{path}key", f"{path}key")
    return key, check_length(fields.text("value", ""), f"{path}value", MOST_EXPERIMENT_TAG)


def _no_experiment(experiment_id: str) -> MlflowError:
    return MlflowError(f"No Experiment with id={experiment_id[:100]} exists", RESOURCE_DOES_NOT_EXIST)


def _is_taken(name: str) -> MlflowError:
    return MlflowError(f"Experiment(name={name[:MOST_NAME]}) already exists.", RESOURCE_ALREADY_EXISTS)
