"""The script that exports an Azure ML workspace: whole, again, throttled, killed, and with the SDK's own names."""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from runyard.imports.azureml import export as azureml_export
from tests.cli.command_line import runyard
from tests.imports.azure_workspace import LIVE, PLAIN, SNAPSHOT, SWEEP, TRIAL, a_workspace, calls, export
from tests.interpreters import find_interpreter


def read(folder: Path, name: str) -> Any:
    text = (folder / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "done"
    }


def test_an_export_holds_all_of_the_workspace(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    done = export({**a_workspace(), "missing": ["outputs/lost.bin"]}, folder)

    assert done.returncode == 0, done.stderr
    assert f"runyard import azureml {folder}" in done.stderr
    run = read(folder, f"runs/{PLAIN}/run.json")
    assert (run["experiment"], run["status"], run["display_name"], run["parent"]) == (
        "mnist",
        "Completed",
        "größe",
        None,
    )
    assert run["created"] == "2023-05-04T03:01:00.123456+00:00" and run["tags"] == {"a": "b", "n": None}
    assert run["details"]["runDefinition"]["arguments"] == ["--lr", "0.1", "--name", "x y"]
    assert run["details"]["inputDatasets"][0]["dataset"] == {"id": "d-1", "name": "mnist", "version": 2}
    loss = read(folder, f"runs/{PLAIN}/metrics.json")["samples"]["loss"]
    assert [row[:2] for row in loss["rows"]][:2] == [[0, "2023-05-04T03:02:01+00:00"], [1, "2023-05-04T03:02:02+00:00"]]
    files = {one["name"]: one["path"] for one in read(folder, f"runs/{PLAIN}/files.json")}
    place = folder / "runs" / PLAIN / "files"
    assert (place / files["outputs/model.pkl"]).read_bytes() == b"weights"
    assert files["outputs/../../../escape.txt"].count("..") == 0 and (place / files["a/b"]).read_text() == "file below"
    assert files["logs/CON"] == "logs/%43ON" and len(files) == 7
    lost = read(folder, f"runs/{TRIAL}/run.json")
    assert lost["parent"] == SWEEP and lost["details"]["error"]["error"]["code"] == "UserError"
    assert "outputs/lost.bin is missing" in lost["notes"][0]
    assert [one["name"] for one in read(folder, f"runs/{TRIAL}/files.json")] == ["outputs/kept.bin"]
    with zipfile.ZipFile(folder / "snapshots" / f"{SNAPSHOT}.zip") as packed:
        assert packed.namelist() == ["train.py", "lib/a.py"]
    models = read(folder, "models.jsonl")
    assert [(one["name"], one["version"], one["run_id"]) for one in models] == [("net", 1, PLAIN), ("net", 3, None)]
    assert (folder / models[1]["folder"] / "files/net/MLmodel").read_text() == "three"
    environments = read(folder, "environments.jsonl")
    assert [(one["name"], one["version"]) for one in environments] == [("train", "1"), ("train", "2")]
    assert "numpy" in environments[0]["files"]["conda_dependencies.yml"]
    assert [one["definition"]["source"] for one in read(folder, "datasets.jsonl")][1] == ["('blobs', 'mnist/v2/**')"]
    assert read(folder, "experiments.jsonl")[1]["archived"] == "2022-01-01T00:00:00"
    assert not [name for name, data in tree(folder).items() if b"SECRET" in data]


def test_an_export_goes_on_and_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    service = a_workspace()
    first = export(service, folder, "--files", "none")
    assert first.returncode == 0 and not any(call.startswith("file ") for call in calls(folder))
    second = export(service, folder)
    assert second.returncode == 0
    assert sum(call.startswith("file ") for call in calls(folder)) == 10
    before = tree(folder)
    service["runs"][LIVE]["dto"]["status"] = "Completed"
    third = export(service, folder)

    asked = calls(folder)
    assert third.returncode == 0 and [call for call in asked if call.startswith("run ")] == [f"run {LIVE}"]
    assert not any(call.startswith(("snapshot", "model ", "file ")) for call in asked)
    changed = {name for name, data in tree(folder).items() if before.get(name) != data}
    assert changed == {f"runs/{LIVE}/run.json"}


def test_only_some_experiments(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    done = export(a_workspace(), folder, "--experiments", "old,none")

    assert done.returncode == 1 and "experiment none: there is none of that name" in done.stderr
    assert [path.name for path in (folder / "runs").iterdir()] == [LIVE]
    assert not (folder / "models.jsonl").exists()


def test_a_throttled_service_is_asked_again(tmp_path: Path) -> None:
    whole, throttled = tmp_path / "a" / "export", tmp_path / "b" / "export"
    export(a_workspace(), whole)
    done = export({**a_workspace(), "throttled_every": 4}, throttled)

    assert done.returncode == 0, done.stderr
    assert "asked to wait" in done.stderr
    assert tree(throttled) == tree(whole)


def test_what_cannot_be_read_is_a_problem_by_name_and_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    done = export({**a_workspace(), "refused": {"file outputs/model.pkl": 403}}, folder)
    assert done.returncode == 1
    assert f"problem: run {PLAIN}: ServiceException: refused: file outputs/model.pkl" in done.stderr
    assert [one["name"] for one in read(folder, "problems.jsonl")] == [f"run {PLAIN}"]
    assert not (folder / "done").exists() and (folder / "runs" / TRIAL / "done").exists()

    assert export(a_workspace(), folder).returncode == 0
    assert (folder / "done").exists()


def test_an_export_that_is_killed_anywhere_ends_as_one_that_is_not(tmp_path: Path) -> None:
    whole = tmp_path / "whole" / "export"
    export(a_workspace(), whole)
    for dies_after in (3, 17, 34):
        torn = tmp_path / str(dies_after) / "export"
        for again in (dies_after, 2):  # a second one soon after it goes on: how much was left depends on its threads
            assert export({**a_workspace(), "dies_after": again}, torn).returncode == 9
        done = export(a_workspace(), torn)

        assert done.returncode == 0, done.stderr
        assert {name: data for name, data in tree(torn).items() if not name.endswith(".tmp")} == tree(whole)


def test_an_old_sdk_gives_metrics_without_times(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    done = export({**a_workspace(), "has_samples": False}, folder)

    assert done.returncode == 0, done.stderr
    assert read(folder, f"runs/{PLAIN}/metrics.json") == {"merged": a_workspace()["runs"][PLAIN]["merged"]}


def test_the_command_prints_the_script(tmp_path: Path) -> None:
    printed = runyard("import", "azureml", "--script")
    script = tmp_path / "export.py"
    script.write_text(printed.stdout)

    assert printed.returncode == 0 and printed.stdout == Path(azureml_export.__file__).read_text()
    assert export(a_workspace(), tmp_path / "export", script=script).returncode == 0


def test_the_oldest_python_runs_it(tmp_path: Path) -> None:
    python = next(filter(None, map(find_interpreter, ("3.6", "3.7", "3.8"))), sys.executable)
    done = export(a_workspace(), tmp_path / "export", python=python)

    assert done.returncode == 0, done.stderr
    ast.parse(Path(azureml_export.__file__).read_text(), feature_version=(3, 6))


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        (["a/b", "A/b"], ["a/b", "A/b~2"]),
        (["../x", "a:b", "dot."], ["%2E./x".replace("/", "/"), "a%3Ab", "dot%2E"]),
        (["", "/"], ["%", "%~2"]),
    ],
)
def test_names_become_paths_below_the_folder(names: list[str], paths: list[str]) -> None:
    taken: dict[str, str] = {}

    found = [azureml_export.path_of(name, taken) for name in names]
    assert len(set(map(str.lower, found))) == len(names)
    assert not any(part in ("..", ".", "") for path in found for part in path.split("/"))
    assert [path.replace("%2E%2E", "%2E.") for path in found] == paths
