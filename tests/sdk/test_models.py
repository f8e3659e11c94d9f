"""Models against a real private server: registered from runs and from disk, in versions, found and fetched again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from azureml.core import Dataset
from azureml.core.model import Model
from runyard.core.config.paths import artifact_folder
from runyard.core.config.settings import read_settings
from runyard.sdk.exceptions import ModelPathNotFoundException, UserErrorException, WebserviceException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

SCRIPT = """
import os
from azureml.core import Run
run = Run.get_context()
os.makedirs("outputs/net", exist_ok=True)
open("outputs/model.pkl", "wb").write(b"weights")
open("outputs/net/a.bin", "wb").write(b"aa")
open("outputs/net/b.bin", "wb").write(b"bb")
model = run.register_model("in-script", model_path="./outputs/model.pkl", tags={"where": "inside"})
run.tag("registered", model.id)
"""


@pytest.fixture
def run(submit: Callable[..., Run]) -> Run:
    run = submit(SCRIPT)
    run.wait_for_completion()
    return run


def test_a_runs_file_and_folder_become_models(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    inside = Model(workspace, "in-script")
    file = run.register_model("weights", "outputs/model.pkl", tags={"area": "test"}, model_framework="ScikitLearn")
    folder = run.register_model("network", "./outputs//net/", properties={"layers": 3}, description="two files")

    assert run.get_tags()["registered"] == inside.id
    assert (inside.tags, inside.run_id, inside.experiment_name) == ({"where": "inside"}, run.id, run.experiment.name)
    assert (file.id, file.model_framework, file.tags) == (f"weights:{file.version}", "ScikitLearn", {"area": "test"})
    assert (folder.properties, folder.description) == ({"layers": "3"}, "two files")
    assert Path(file.download(str(tmp_path / "x"))).read_bytes() == b"weights"
    found = Path(folder.download(str(tmp_path / "y")))
    assert found == tmp_path / "y" / "net"
    assert {path.name: path.read_bytes() for path in found.iterdir()} == {"a.bin": b"aa", "b.bin": b"bb"}
    assert file.run is not None and file.run.id == run.id
    with pytest.raises(ModelPathNotFoundException, match="outputs/none"):
        run.register_model("nothing", "outputs/none.pkl")


def test_versions_count_up_are_listed_newest_first_and_found_by_what_they_say(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "m.txt").write_text("one")
    models = [
        Model.register(workspace, str(tmp_path / "m.txt"), "counted", tags={"n": number, "odd": number % 2})
        for number in range(4)
    ]

    assert [model.version - models[0].version for model in models] == [0, 1, 2, 3]
    assert Model(workspace, "counted").version == models[3].version
    assert Model(workspace, id=models[1].id) == models[1]
    assert [model.tags["n"] for model in Model.list(workspace, "counted")] == ["3", "2", "1", "0"]
    assert [model.tags["n"] for model in Model.list(workspace, "counted", tags=[["odd", "1"]])] == ["3", "1"]
    assert [model.id for model in Model.list(workspace, "counted", latest=True)] == [models[3].id]
    assert workspace.models["counted"] == models[3]
    models[3].delete()
    models[3].delete()
    assert Model(workspace, "counted") == models[2]
    with pytest.raises(WebserviceException, match="ModelNotFound"):
        Model(workspace, "counted", version=models[3].version)
    with pytest.raises(WebserviceException, match="ModelNotFound"):
        Model(workspace, "never")


def test_what_is_said_about_a_version_can_change_and_its_properties_cannot(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "m.txt").write_text("said")
    model = Model.register(workspace, str(tmp_path / "m.txt"), "said", tags={"a": "1"}, properties={"p": "1"})
    model.add_tags({"b": "2"})
    model.remove_tags(["a"])
    model.add_properties({"q": "2"})
    model.update(tags={"c": "3"}, description="new words")
    again = Model(workspace, "said")

    assert (again.tags, again.properties, again.description) == ({"c": "3"}, {"p": "1", "q": "2"}, "new words")
    with pytest.raises(UserErrorException, match="cannot be changed: p"):
        model.add_properties({"p": "2"})


def test_ten_versions_of_one_file_are_stored_once(workspace: Workspace, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096 + str(tmp_path).encode()
    (tmp_path / "big.bin").write_bytes(content)
    packs = artifact_folder(read_settings().home)
    Model.register(workspace, str(tmp_path / "big.bin"), "big")
    before = sum(path.stat().st_size for path in packs.rglob("*") if path.is_file())
    for _ in range(9):
        Model.register(workspace, str(tmp_path / "big.bin"), "big")
    after = sum(path.stat().st_size for path in packs.rglob("*") if path.is_file())

    assert len(Model.list(workspace, "big")) == 10
    assert after == before


def test_get_model_path_downloads_once_and_finds_what_lies_beside_the_program(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.txt").write_text("beside")
    model = Model.register(workspace, str(tmp_path / "m.txt"), "beside")
    monkeypatch.chdir(tmp_path)
    path = Model.get_model_path("beside", _workspace=workspace)
    model.delete()

    assert Path(path).read_text() == "beside"
    assert Model.get_model_path("beside") == path


def test_get_model_path_finds_the_models_of_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "app" / "azureml-models"
    for name in ("one/3/model.pkl", "one/12/model.pkl", "two/1/saved/model.pb"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(name)
    monkeypatch.chdir(tmp_path)

    monkeypatch.setenv("AZUREML_MODEL_DIR", str(root / "one" / "12"))  # a service with one model
    assert Model.get_model_path("one") == str(root / "one/12/model.pkl")
    assert Model.get_model_path(model_name="one", version=3) == str(root / "one/3/model.pkl")
    monkeypatch.setenv("AZUREML_MODEL_DIR", str(root))  # with several
    assert Model.get_model_path("two") == str(root / "two/1/saved")
    monkeypatch.delenv("AZUREML_MODEL_DIR")
    monkeypatch.setenv("AML_APP_ROOT", str(tmp_path / "app"))
    assert Model.get_model_path("two") == str(root / "two/1/saved")
    monkeypatch.delenv("AML_APP_ROOT")
    monkeypatch.chdir(tmp_path / "app")  # scripts start there
    assert Model.get_model_path("one", 12) == "azureml-models/one/12/model.pkl"
    (root / "two/1/other").touch()
    with pytest.raises(WebserviceException, match="must hold one file or folder"):
        Model.get_model_path("two")


def test_a_model_knows_its_datasets_by_what_they_were_for(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("data")
    datastore = workspace.get_default_datastore()
    dataset = Dataset.File.upload_directory(str(tmp_path), (datastore, tmp_path.name), show_progress=False)
    kept = dataset.register(workspace, tmp_path.name)
    loose = dataset.take(1)
    model = Model.register(
        workspace, str(tmp_path / "m.txt"), "fed", datasets=[("training", kept), ("training", loose), ("test", kept)]
    )
    found = Model(workspace, id=model.id).datasets

    assert [getattr(one, "version", one) for one in found["training"]] == [1, loose.id]
    assert [(one.name, one.id) for one in found["test"]] == [(kept.name, kept.id)]
    assert Model.list(workspace, dataset_id=loose.id) == [model]
    with pytest.raises(UserErrorException, match="download"):
        model.get_sas_urls()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model_path": "no/such/file"}, "does not exist"),
        ({"tags": ["a"]}, "tags must be a dictionary"),
        ({"model_framework_version": "2"}, "without model_framework"),
    ],
    ids=["no file", "tags", "version of no framework"],
)
def test_mistakes_are_web_service_exceptions(
    workspace: Workspace, tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    (tmp_path / "m.txt").write_text("x")
    with pytest.raises(WebserviceException, match=words):
        Model.register(workspace, **{"model_path": str(tmp_path / "m.txt"), "model_name": "wrong", **arguments})


def test_a_file_that_is_there_is_not_overwritten_unless_that_is_fine(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("new")
    model = Model.register(workspace, str(tmp_path / "m.txt"), "careful")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/m.txt").write_text("old")

    with pytest.raises(WebserviceException, match="there already"):
        model.download(str(tmp_path / "there"))
    assert (tmp_path / "there/m.txt").read_text() == "old"
    model.download(str(tmp_path / "there"), exist_ok=True)
    assert (tmp_path / "there/m.txt").read_text() == "new"
