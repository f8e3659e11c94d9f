"""`runyard import azureml`: what the export script took out of a workspace is here, and the SDK gives it back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.core.errors import InvalidArgument
from runyard.imports.azureml.folder import AzureFolder, open_azureml
from runyard.imports.azureml.metrics import time_ns
from runyard.imports.records import ImportedAsset
from runyard.sdk.data.dataset import Dataset
from runyard.sdk.environments.environment import Environment
from runyard.sdk.models.model import Model
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace
from tests.cli.command_line import runyard
from tests.imports.azure_workspace import a_workspace, export, renamed
from tests.imports.test_import_mlflow import all_runs, an_id, dump


@pytest.fixture
def names() -> dict[str, str]:
    """Run ids are unique on a server that tests share."""
    return {name: f"{name}_{an_id()[:8]}" for name in ("plain", "sweep", "trial", "live")}


def exported(folder: Path, service: dict[str, Any], *arguments: str) -> Path:
    done = export(service, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_workspace_comes_over_and_its_sdk_calls_give_the_same_values(
    client: Client, workspace: str, tmp_path: Path, names: dict[str, str]
) -> None:
    service = renamed(a_workspace(), names)
    folder = exported(tmp_path / "export", service)
    done = runyard("import", "azureml", str(folder), "--workspace", workspace, "--verify", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["runs"] == {"new": 4, "grown": 0, "unchanged": 0} and told["verified"] == 4
    assert told["models"]["new"] == 2 and told["assets"]["new"] == 5 and told["snapshots"] == 4
    ws = Workspace.get(workspace)
    run = Run(Experiment(ws, "mnist"), names["plain"])

    metrics = run.get_metrics()
    address = f"aml://artifactId/ExperimentRun/dcid.{names['plain']}"
    assert metrics["loss"][:2] == [0.5, 0.25] and math.isnan(metrics["loss"][2])
    assert metrics["rows"] == {"x": [1.0, 2.0], "y": ["p", None]}
    assert (metrics["plot"], metrics["word"]) == (f"{address}/plot_1.png", "good")
    assert (metrics["matrix"], metrics["list"]) == (f"{address}/matrix.json", [1, 2, 3])
    assert (metrics["flag"], metrics["one_row"]) == ([True, None], {"x": 3})
    assert run.get_status() == "Completed" and run.display_name == "größe"
    assert run.get_tags() == {"a": "b", "n": None}
    details = run.get_details()
    assert details["startTimeUtc"].startswith("2023-05-04T03:01:05")
    assert details["runDefinition"]["arguments"] == ["--lr", "0.1", "--name", "x y"]
    assert client.runs.get(run.id).parameters == {"lr": "0.1", "name": "x y"}
    assert run.get_properties()["azureml.git.commit"] == "abc"
    files = run.get_file_names()
    assert {"outputs/model.pkl", "plot_1.png", "user_logs/std_log.txt", "a/b"} <= set(files)
    run.download_file("outputs/model.pkl", str(tmp_path / "got.pkl"))
    assert (tmp_path / "got.pkl").read_bytes() == b"weights"
    restored = run.restore_snapshot(path=str(tmp_path / "snapshot"))
    assert "train.py" in "".join(str(path) for path in Path(tmp_path / "snapshot").rglob("*")) or restored
    trial = client.runs.get(names["trial"])
    assert (trial.parent_id, trial.status.value) == (names["sweep"], "Failed")
    assert trial.error is not None and "ValueError" in str(trial.error["message"])
    assert [one.id for one in Run(Experiment(ws, "mnist"), names["sweep"]).get_children()] == [names["trial"]]
    assert client.runs.get(names["live"]).error["code"] == "ImportedUnfinished"  # type: ignore[index]

    model = Model(ws, "net", version=3)
    assert (model.version, model.description, model.tags, model.properties["p"]) == (3, "v3", {"t": "1"}, "2")
    assert (model.model_framework, model.model_framework_version) == ("ScikitLearn", "1.2")
    assert str(model.created_time).startswith("2023-06-01")
    place = Path(model.download(str(tmp_path / "model")))
    assert (place / "MLmodel").read_text() == "three" and (place / "data" / "x").read_text() == "y"
    assert Model(ws, "net", version=1).run_id == names["plain"]
    environment = Environment.get(ws, "train", version="1")
    assert environment.environment_variables["A"] == "B" and environment.docker.base_image == "ubuntu"
    assert "numpy" in str(environment.python.conda_dependencies.as_dict())
    dataset = Dataset.get_by_name(ws, "mnist", version=2)
    assert (dataset.version, dataset.description, dataset.id) == (2, "d", "d-2")
    assert ws.datastores["blobs"].container_name == "c" and ws.datastores["blobs"].account_name == "acc"
    assert client.experiments.get(workspace, "old").archived_at is not None
    assert Experiment(ws, "mnist").tags == {"k": "v"}


def test_again_brings_nothing_and_what_grew_comes(
    client: Client, workspace: str, tmp_path: Path, names: dict[str, str]
) -> None:
    service = renamed(a_workspace(), names)
    folder = exported(tmp_path / "export", service, "--files", "none", "--no-snapshots")
    runyard("import", "azureml", str(folder), "--workspace", workspace)
    assert not client.runs.files(names["plain"])
    Model(Workspace.get(workspace), "net", version=1).add_tags({"mine": "1"})
    exported(folder, service)
    grown = json.loads(runyard("import", "azureml", str(folder), "--workspace", workspace, "--json").stdout)
    before = dump(client, workspace)
    again = json.loads(runyard("import", "azureml", str(folder), "--workspace", workspace, "--json").stdout)

    assert grown["points"] == 0 and grown["files"] == 13 and grown["snapshots"] == 4
    assert again["runs"] == {"new": 0, "grown": 0, "unchanged": 4}
    assert (again["points"], again["files"], again["snapshots"], again["failed"]) == (0, 0, 0, [])
    assert again["models"] == {"new": 0, "unchanged": 2} and again["assets"]["new"] == 0
    assert dump(client, workspace) == before
    model = Model(Workspace.get(workspace), "net", version=1)
    assert model.tags == {"t": "1", "mine": "1"} and model.download(str(tmp_path / "m")).endswith("model.pkl")


def test_metrics_without_times_have_the_same_values(
    client: Client, workspace: str, tmp_path: Path, names: dict[str, str]
) -> None:
    folder = exported(tmp_path / "export", renamed({**a_workspace(), "has_samples": False}, names))
    runyard("import", "azureml", str(folder), "--workspace", workspace)
    metrics = Run(Experiment(Workspace.get(workspace), "mnist"), names["plain"]).get_metrics()

    assert metrics == {"loss": [0.5, 0.25], "rows": {"x": [1.0, 2.0]}, "acc": 0.75, "word": "good"}


def test_an_unfinished_export_says_so(client: Client, workspace: str, tmp_path: Path, names: dict[str, str]) -> None:
    service = renamed(a_workspace(), names)
    folder = tmp_path / "export"
    export({**service, "refused": {"file outputs/model.pkl": 403}}, folder)
    done = runyard("import", "azureml", str(folder), "--workspace", workspace)

    assert done.returncode == 0 and set(all_runs(client, workspace)) == {*names.values()} - {names["plain"]}
    assert "the export: it has not come to its end" in done.stdout
    assert f"run {names['plain']}: the export" in done.stdout


def test_a_folder_that_is_no_export_is_refused_with_what_to_do(tmp_path: Path) -> None:
    done = runyard("import", "azureml", str(tmp_path))
    none = runyard("import", "azureml")

    assert done.returncode == 1 and "--script > export.py" in done.stderr
    assert none.returncode == 2 and "Name the folder" in none.stderr
    with pytest.raises(InvalidArgument, match="no copy of the container"):
        (tmp_path / "runs").mkdir()
        (tmp_path / "workspace.json").write_text("{}")
        open_azureml(str(tmp_path), blobs=str(tmp_path))


def test_a_hostile_export_reads_nothing_outside(tmp_path: Path, names: dict[str, str]) -> None:
    folder = exported(tmp_path / "export", renamed(a_workspace(), names))
    (tmp_path / "secret").write_text("secret")
    run = folder / "runs" / names["plain"]
    (run / "files.json").write_text(json.dumps([{"name": "x", "path": "../../../../secret"}]))
    (run / "link").symlink_to(tmp_path / "secret")
    models = (folder / "models.jsonl").read_text().splitlines()
    facts = json.loads(models[0])
    (folder / "models.jsonl").write_text(json.dumps({**facts, "folder": "../../"}) + "\n[1]\n")
    source = AzureFolder(str(folder))
    head = next(head for head in source.list_heads() if head.id == names["plain"])
    found = source.read_run(head)

    assert not found.files and any("outside of the folder" in note for note in found.notes)
    assert [model.files for model in source.iter_models()] == [[]]
    assert any("line 2" in skipped.name for skipped in source.skipped)


def test_files_of_a_storage_copy_join_those_of_the_export(tmp_path: Path, names: dict[str, str]) -> None:
    folder = exported(tmp_path / "export", renamed(a_workspace(), names), "--files", "none")
    blob = tmp_path / "blobs" / "ExperimentRun" / f"dcid.{names['plain']}" / "outputs"
    blob.mkdir(parents=True)
    (blob / "model.pkl").write_bytes(b"weights")
    source = open_azureml(str(folder), blobs=str(tmp_path / "blobs"))
    head = next(head for head in source.list_heads() if head.id == names["plain"])

    assert [(file.name, file.size) for file in source.read_run(head).files] == [("outputs/model.pkl", 7)]


def test_tabular_datasets_keep_how_they_are_read() -> None:
    from runyard.cli.transfer.azure_assets import _dataset

    blocks = [
        {"type": "Microsoft.DPrep.GetDatastoreFilesBlock", "arguments": {}},
        {
            "type": "Microsoft.DPrep.ParseDelimitedBlock",
            "arguments": {"separator": ";", "columnHeadersMode": 0, "fileEncoding": 7},
        },
        {
            "type": "Microsoft.DPrep.SetColumnTypesBlock",
            "arguments": {"columnConversion": [{"column": {"details": {"selectedColumn": "x"}}, "typeProperty": 2}]},
        },
    ]
    facts = {
        "id": "d",
        "kind": "TabularDataset",
        "definition": {
            "source": ["('blobs', '/a/*.csv')", "https://example.org/b.csv"],
            "definition": ["GetDatastoreFiles", "ParseDelimited", "DropColumns", "SetColumnTypes", "Filter"],
        },
        "steps": json.dumps({"blocks": blocks}),
    }
    made = _dataset(ImportedAsset("dataset", "d", 1, facts))
    spec = made.document["spec"]

    assert spec["kind"] == "tabular" and spec["sources"][0]["path"] == "a/*.csv"
    assert spec["sources"][1]["url"] == "https://example.org/b.csv"
    reader = spec["reader"]
    assert (reader["separator"], reader["header"], reader["encoding"]) == (";", False, "windows1252")
    assert reader["types"] == {"x": "long"} and "Filter" in made.notes[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T01:00:00.5+01:00", 500_000_000),
        ("1970-01-01T00:00:00.1234567Z", 123_456_700),
        ("1970-13-01T00:00:00Z", None),
        ("soon", None),
        (None, None),
    ],
)
def test_times_as_azure_writes_them(text: str | None, wanted: int | None) -> None:
    assert time_ns(text) == wanted
