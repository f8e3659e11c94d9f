"""Endpoints of experiments. An experiment that MLflow deletes is archived here, so it can be restored."""

from __future__ import annotations

from runyard.core.names import check_experiment_name
from runyard.core.records import Experiment
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
