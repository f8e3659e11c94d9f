"""Endpoints of experiments. An experiment that MLflow deletes is archived here, so it can be restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runyard.core.names import check_experiment_name
from runyard.core.records import Experiment
from runyard.server.mlflow.checks import MOST_EXPERIMENT_TAG, check_key, check_length
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import experiment_json
from runyard.server.mlflow.errors import RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST, MlflowError

DEFAULT_ID, DEFAULT_NAME = "0", "Default"
MOST_NAME = 500


@endpoint("GET", "mlflow/experiments/get", "read_workspace", "put_experiment", "put_workspace")
def get_experiment(call: Call) -> Document:
    """Return an experiment by its id; `0` is `Default`, made when it is first asked for."""
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


@endpoint("POST", "mlflow/experiments/create", "put_experiment", "put_workspace")
def create_experiment(call: Call) -> Document:
    """Make an experiment with its tags; a name that is taken is refused, an archived experiment's too."""
    call.require("put_experiment")
    name = call.fields.text("name")
    if len(name) > MOST_NAME:
        raise MlflowError(f"'name' exceeds the maximum length of {MOST_NAME} characters")
    location = call.fields.text("artifact_location", "")
    if location:
        raise MlflowError(
            f"The experiment's artifact_location '{location[:200]}' cannot be used: this server keeps the files of "
            "runs itself. Leave artifact_location out."
        )
    tags = {tag.text("key"): tag.text("value", "") for tag in call.fields.items("tags")}
    if find_by_name(call, name) is not None:
        raise MlflowError(f"Experiment(name={name[:500]}) already exists.", RESOURCE_ALREADY_EXISTS)
    made = call.store.put_experiment(call.workspace, check_experiment_name(name), owner=call.context.user)
    if tags:
        made = call.store.update_experiment(call.workspace, made.name, tags_set=tags)
    return {"experiment_id": made.id}


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
    key = check_key(call.fields.text("key"), "key", "key")
    return _update(call, tags_set={key: check_length(call.fields.text("value", ""), "value", MOST_EXPERIMENT_TAG)})


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
    experiment = experiment_of(call, call.fields.text("experiment_id"))
    call.require("update_experiment", owner=experiment.owner)
    if archived is None and experiment.archived_at is not None:
        raise MlflowError(f"The experiment {experiment.id} must be in the 'active' state. Current state is deleted.")
    call.store.update_experiment(
        call.workspace, experiment.name, archived=archived, tags_set=tags_set, tags_remove=tags_remove
    )
    return {}


def experiment_of(call: Call, experiment_id: str) -> Experiment:
    """Return the experiment with that id, archived or not, when the principal may read it."""
    call.require("read_workspace")
    if experiment_id == DEFAULT_ID:
        return find_by_name(call, DEFAULT_NAME) or _make_default(call)
    for found in call.store.list_experiments(call.workspace, view="All"):
        if found.id == experiment_id:
            return found
    raise MlflowError(f"No Experiment with id={experiment_id[:100]} exists", RESOURCE_DOES_NOT_EXIST)


def find_by_name(call: Call, name: str) -> Experiment | None:
    """Return the experiment of that name, archived or not."""
    found = call.store.list_experiments(call.workspace, view="All", name=check_experiment_name(name))
    return found[0] if found else None


def _make_default(call: Call) -> Experiment:
    call.require("put_experiment")
    return call.store.put_experiment(call.workspace, DEFAULT_NAME, owner=call.context.user)
