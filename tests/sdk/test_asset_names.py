"""Datasets, models, environments, experiments and tags under any printable name, against a real private server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from azureml.core import Dataset, Environment, Experiment, Model
from runyard.core.names import check_plain_name
from runyard.sdk.models.files import plain_form
from runyard.sdk.workspaces.workspace import Workspace

NAMES = ["my thing", "my_thing", "my/thing", "..", "Größe 100 % 😀", "%2F", "a:1 b"]


@pytest.mark.parametrize("name", NAMES)
def test_assets_are_registered_listed_and_found_under_their_names(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    name = f"{name} {tmp_path.name}" if name != ".." else name
    path = tmp_path / "data.txt"
    path.write_text(name)
    datastore = workspace.get_default_datastore()
    datastore.upload_files([str(path)], target_path=tmp_path.name, overwrite=True, show_progress=False)
    Dataset.File.from_files((datastore, tmp_path.name)).register(workspace, name, create_new_version=True)
    made = Model.register(workspace, str(path), name, tags={"a tag": "a b"})
    Environment(name).register(workspace)

    dataset = Dataset.get_by_name(workspace, name).add_tags({"näh / x": "1"})
    assert dataset.name == name and Dataset.get_by_name(workspace, name).tags == {"näh / x": "1"}
    assert workspace.datasets[name].id == dataset.id
    model = Model(workspace, name)
    assert (model.name, model.id, Model(workspace, id=made.id).tags) == (name, made.id, {"a tag": "a b"})
    assert name in workspace.models and [one.name for one in Model.list(workspace, name=name, latest=True)] == [name]
    fetched = Path(Model.get_model_path(name, _workspace=workspace))
    assert fetched.read_text() == name and tmp_path in fetched.resolve().parents
    assert Path(Model.get_model_path(name)) == fetched
    assert Environment.get(workspace, name).name == name and name in Environment.list(workspace)
    dataset.unregister_all_versions()
    assert name not in workspace.datasets


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_an_experiment_of_any_name_are_found(workspace: Workspace, name: str) -> None:
    experiment = Experiment(workspace, name)
    run = experiment.start_logging()
    run.complete()

    assert run.experiment.name == name and next(experiment.get_runs()).id == run.id
    assert workspace.experiments[name].name == name
    experiment.tag("k", "v")
    assert Experiment(workspace, name).tags["k"] == "v"


def test_an_experiment_is_found_by_its_title(workspace: Workspace) -> None:
    made = Experiment(workspace, "titled")
    assert made.title == "titled"
    workspace._client.experiments.update(workspace.name, "titled", title="With a title")
    found = Experiment(workspace, "With a title")
    run = found.start_logging()
    run.complete()

    assert (found.name, found.title, found.id, run.experiment.name) == ("titled", "With a title", made.id, "titled")
    assert [one.title for one in Experiment.list(workspace, experiment_name="With a title")] == ["With a title"]
    assert next(Experiment._known(workspace, "With a title").get_runs()).id == run.id
    workspace._client.experiments.update(workspace.name, "titled", title="titled")


def test_the_command_line_shows_and_takes_names_with_spaces(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("x")
    name = f"diabetes dataset {tmp_path.name}"
    model = Model.register(workspace, str(path), name)
    datastore = workspace.get_default_datastore()
    datastore.upload_files([str(path)], target_path=tmp_path.name, show_progress=False)
    Dataset.File.from_files((datastore, tmp_path.name)).register(workspace, name)

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "runyard.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    assert name in said("models", "list") and name in said("datasets", "list")
    assert name in said("models", "show", model.id) and name in said("datasets", "show", name)


def test_plain_forms_keep_names_apart() -> None:
    names = ["a b", "a_b", "a/b", "a-b", "ä_b", "a  b"]

    assert plain_form("a_b") == "a_b"
    assert plain_form("a b").startswith("a_b-")
    assert len({plain_form(name) for name in names}) == len(names)
    assert all(check_plain_name(plain_form(name)) for name in [*names, *NAMES])
