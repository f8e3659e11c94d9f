"""Data in a configuration becomes references of the plan; mistakes are found before anything is copied."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.specs import DataReferenceSpec, RunSpec
from runyard.sdk.data.datastore import Datastore
from runyard.sdk.data.inputs import DataPath, DataPathComputeBinding, DataReference
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration, RunConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.submit.submission import plan_submission

STORE = Datastore._known(None, "workspaceblobstore", {"type": "folder", "path": "/data"})  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('hello')")
    return tmp_path


def plan(project: Path, **config: Any) -> RunSpec:
    if "command" not in config:
        config.setdefault("script", "train.py")
    return plan_submission(ScriptRunConfig(source_directory=str(project), **config)).spec


def test_a_reference_is_its_variable() -> None:
    assert str(STORE.as_mount()) == "$AZUREML_DATAREFERENCE_workspaceblobstore"
    assert str(STORE.path("x", data_reference_name="mine")) == "$AZUREML_DATAREFERENCE_mine"
    assert re.fullmatch(r"\$AZUREML_DATAREFERENCE_[0-9a-f]{32}", str(STORE.path("x")))


def test_ways_to_have_data_keep_its_name_and_path() -> None:
    given = STORE.path("data/train", data_reference_name="train")

    assert given.as_download("here", overwrite=True).to_config().to_plain() == {
        "dataStoreName": "workspaceblobstore",
        "pathOnDataStore": "data/train",
        "mode": "download",
        "overwrite": True,
        "pathOnCompute": "here",
    }
    assert [str(way) for way in (given.as_mount(), given.as_download(), given.as_upload())] == [str(given)] * 3
    assert given.path("deep").path_on_datastore == "data/train/deep"
    assert (STORE.as_upload("out").mode, STORE.as_upload("out").path_on_compute) == ("upload", "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "direct"}, "mount, download, upload"),
        ({"data_reference_name": "a-b"}, "letters, digits"),
        ({"path_on_datastore": "../x"}, "leaves the datastore"),
        ({"datastore": "workspaceblobstore"}, "found str"),
    ],
)
def test_a_reference_that_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserErrorException, match=message):
        DataReference(**{"datastore": STORE, **arguments})


def test_data_among_arguments_travels_with_the_run(project: Path) -> None:
    spec = plan(project, arguments=["--all", STORE, "--in", STORE.path("in", "part").as_download(), "--n", 3])

    assert spec.arguments == [
        "--all",
        "$AZUREML_DATAREFERENCE_workspaceblobstore",
        "--in",
        "$AZUREML_DATAREFERENCE_part",
        "--n",
        "3",
    ]
    assert spec.data_references == {
        "workspaceblobstore": DataReferenceSpec("workspaceblobstore"),
        "part": DataReferenceSpec("workspaceblobstore", "in", "download"),
    }


def test_data_in_a_command_is_left_to_the_shell(project: Path) -> None:
    spec = plan(project, command=["ls", STORE])

    assert spec.command == "ls $AZUREML_DATAREFERENCE_workspaceblobstore"
    assert "workspaceblobstore" in spec.data_references


def test_data_of_a_run_configuration_may_be_any_of_its_forms(project: Path) -> None:
    config = RunConfiguration()
    config.data_references = {
        "a": STORE.path("a").as_upload().to_config(),
        "b": STORE.path("b", "b"),
        "c": {"dataStoreName": "other", "pathOnDataStore": "c", "mode": "download"},
    }
    spec = plan(project, run_config=config)

    assert spec.data_references == {
        "a": DataReferenceSpec("workspaceblobstore", "a", "upload"),
        "b": DataReferenceSpec("workspaceblobstore", "b"),
        "c": DataReferenceSpec("other", "c", "download"),
    }
    assert spec.definition["dataReferences"]["b"]["pathOnDataStore"] == "b"


def test_the_same_data_twice_is_one_reference(project: Path) -> None:
    assert list(plan(project, arguments=[STORE, STORE.as_mount()]).data_references) == ["workspaceblobstore"]


@pytest.mark.parametrize(
    ("references", "arguments", "message"),
    [
        ([], [], "must be a dict"),
        ({"a": 3}, [], "DataReferenceConfiguration"),
        ({"a": DataReferenceConfiguration()}, [], "names no datastore"),
        ({"a b": DataReferenceConfiguration("x")}, [], "letters, digits"),
        ({}, [STORE.as_mount(), STORE.as_download()], "Two different data references are called 'workspaceblobstore'"),
        ({"a": {"mod": "mount"}}, [], "mod"),
    ],
)
def test_data_that_cannot_be_is_refused(project: Path, references: Any, arguments: list[Any], message: str) -> None:
    config = RunConfiguration()
    config.data_references = references

    with pytest.raises((UserErrorException, InvalidArgument), match=message):
        plan(project, run_config=config, arguments=arguments)


def test_an_argument_that_names_no_reference_of_the_run_is_refused(project: Path) -> None:
    with pytest.raises(SubmitRejected, match=r"no data reference `workspaceblobstore`[\s\S]*It has: none"):
        plan(project, arguments=["--data", str(STORE.as_mount())])


def test_resuming_adds_an_argument_at_the_end(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    spec = plan(project, arguments=["--n", 1], resume_from=DataPath(STORE, "checkpoints"))

    assert spec.arguments == ["--n", "1", "--resume-from", "$AZUREML_DATAREFERENCE_MODEL_LOCATION"]
    assert spec.data_references == {"MODEL_LOCATION": DataReferenceSpec("workspaceblobstore", "checkpoints")}
    given = RunConfiguration(script="train.py", arguments=["a"])
    spec = plan_submission(ScriptRunConfig(str(project), run_config=given, resume_from=DataPath(STORE))).spec
    assert spec.arguments[:2] == ["a", "--resume-from"] and given.arguments == ["a"]
    assert caplog.records == []


def test_resuming_takes_a_datapath_and_a_script(project: Path) -> None:
    with pytest.raises(UserErrorException, match="takes a DataPath, found str"):
        plan(project, resume_from="checkpoints")
    with pytest.raises(UserErrorException, match="goes with a script"):
        plan(project, command="ls", resume_from=DataPath(STORE))


def test_a_binding_says_how_a_datapath_is_had() -> None:
    binding = DataPathComputeBinding("download", "here", overwrite=True)
    reference = binding.create_data_reference("d", DataPath(STORE, "x"))

    assert (reference.data_reference_name, reference.mode, reference.path_on_compute) == ("d", "download", "here")
    assert reference.overwrite is True
    with pytest.raises(UserErrorException, match="mount, download, upload"):
        DataPathComputeBinding("direct")
