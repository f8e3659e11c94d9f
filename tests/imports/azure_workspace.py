"""A workspace of Azure ML for tests: what `azure_service` answers, and the export of it by the script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SNAPSHOT = "11111111-2222-3333-4444-555555555555"
SWEEP, TRIAL, PLAIN, LIVE = "HD_sweep", "HD_sweep_0", "plain_1683169321_0a1b2c3d", "live-run"


def a_workspace() -> dict[str, Any]:
    return {
        "name": "ml",
        "has_samples": True,
        "experiments": {
            "mnist": {"id": "e1", "tags": {"k": "v"}, "archived_time": None},
            "old": {"id": "e2", "tags": {}, "archived_time": "2022-01-01T00:00:00"},
        },
        "runs": {
            PLAIN: {
                "experiment": "mnist",
                "dto": dto(
                    1, "Completed", run_type="azureml.scriptrun", display_name="größe", tags={"a": "b", "n": None}
                ),
                "definition": {"script": "train.py", "arguments": ["--lr", "0.1", "--name", "x y"]},
                "metrics": {
                    "loss": scalar("loss", [0.5, 0.25, float("nan")]),
                    "rows": {
                        "kind": "azureml.v1.table",
                        "columns": {"x": "float", "y": "string"},
                        "rows": [[0, {"x": 1.0, "y": "p"}], [1, {"x": 2.0}]],
                    },
                    "plot": {
                        "kind": "azureml.v1.image",
                        "columns": {"plot": "artifact"},
                        "rows": [[0, {"plot": "aml://artifactId/ExperimentRun/dcid.x/plot_1.png"}]],
                    },
                    "word": scalar("word", ["good"]),
                },
                "merged": {"loss": [0.5, 0.25], "rows": {"x": [1.0, 2.0]}, "acc": 0.75, "word": "good"},
                "files": {
                    "outputs/model.pkl": "weights",
                    "plot_1.png": "\x89PNG",
                    "user_logs/std_log.txt": "hello",
                    "outputs/../../../escape.txt": "odd",
                    "logs/CON": "reserved",
                    "a": "file",
                    "a/b": "file below",
                },
            },
            SWEEP: {
                "experiment": "mnist",
                "dto": dto(2, "Canceled", run_type="hyperdrive"),
                "files": {"azureml-logs/hyperdrive.txt": "log"},
            },
            TRIAL: {
                "experiment": "mnist",
                "dto": dto(3, "Failed", parent_run_id=SWEEP, run_type="azureml.scriptrun"),
                "error": {"error": {"code": "UserError", "message": "User program failed with ValueError: x"}},
                "metrics": {"loss": scalar("loss", [1.0])},
                "merged": {"loss": 1.0},
                "files": {"outputs/lost.bin": "gone", "outputs/kept.bin": "kept"},
            },
            LIVE: {"experiment": "old", "dto": dto(1, "Running"), "files": {}},
        },
        "snapshots": {SNAPSHOT: {"train.py": "print(1)\n", "lib/a.py": "x = 1\n"}},
        "models": [
            model("net", 1, {"model.pkl": "one"}, run_id=PLAIN),
            model("net", 3, {"net/MLmodel": "three", "net/data/x": "y"}, run_id=None),
        ],
        "environments": [
            environment("train", "1"),
            environment("train", "2"),
            environment("AzureML-sklearn-1.5", "4"),
        ],
        "datasets": [dataset("mnist", 1), dataset("mnist", 2)],
        "datastores": [{"name": "blobs", "datastore_type": "AzureBlob", "account_name": "acc", "container_name": "c"}],
    }


def renamed(service: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the workspace with other ids of its runs, and metrics of every kind."""
    ids = {PLAIN: names["plain"], SWEEP: names["sweep"], TRIAL: names["trial"], LIVE: names["live"]}
    text = json.dumps(service)
    for old, new in sorted(ids.items(), reverse=True):  # a trial's name begins with its sweep's
        text = text.replace(f'"{old}"', f'"{new}"')
    found: dict[str, Any] = json.loads(text)
    address = f"aml://artifactId/ExperimentRun/dcid.{ids[PLAIN]}"
    found["runs"][ids[PLAIN]]["metrics"].update(
        {
            "plot": artifact("azureml.v2.image", "plot", f"{address}/plot_1.png"),
            "matrix": artifact("azureml.v2.confusion_matrix", "matrix", f"{address}/matrix.json"),
            "list": {**scalar("list", [1, 2, 3]), "kind": "azureml.v1.list", "columns": {"list": "int"}},
            "flag": {**scalar("flag", [True, None]), "columns": {"flag": "bool"}},
            "one_row": {"kind": "azureml.v1.table", "columns": {"x": "int"}, "rows": [[0, {"x": 3}]]},
        }
    )
    return found


def artifact(kind: str, name: str, address: str) -> dict[str, Any]:
    return {"kind": kind, "columns": {name: "artifact"}, "rows": [[0, {name: address}]]}


def dto(number: int, status: str, **fields: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "run_number": number,
        "status": status,
        "created_utc": f"2023-05-04T03:0{number}:00.123456+00:00",
        "start_time_utc": f"2023-05-04T03:0{number}:05+00:00",
        "end_time_utc": f"2023-05-04T03:0{number}:59+00:00" if status != "Running" else None,
        "token": "SECRET",
        "created_by": {"user_name": "Ada"},
        "properties": {"ContentSnapshotId": SNAPSHOT, "azureml.git.commit": "abc"},
    }
    return {**known, **fields}


def scalar(name: str, values: list[Any]) -> dict[str, Any]:
    rows = [[at, {name: value}] for at, value in enumerate(values)]
    return {"kind": "azureml.v1.scalar", "columns": {name: "float"}, "rows": rows}


def model(name: str, version: int, files: Mapping[str, str], **fields: Any) -> dict[str, Any]:
    known = {"description": f"v{version}", "tags": {"t": "1"}, "properties": {"p": "2"}, "created_by": "Ada"}
    times = {"created_time": "2023-06-01T00:00:00+00:00"}
    kind = {"model_framework": "ScikitLearn", "model_framework_version": "1.2", "experiment_name": "mnist"}
    return {"name": name, "version": version, "files": dict(files), **known, **times, **kind, **fields}


def environment(name: str, version: str) -> dict[str, Any]:
    text = json.dumps(
        {
            "name": name,
            "version": version,
            "environmentVariables": {"A": "B"},
            "docker": {"baseImage": "ubuntu", "baseImageRegistry": {"address": "r", "password": "SECRET"}},
        }
    )
    conda = "name: e\ndependencies:\n- python=3.8\n- pip:\n  - numpy\n"
    return {
        "name": name,
        "version": version,
        "files": {"azureml_environment.json": text, "conda_dependencies.yml": conda},
    }


def dataset(name: str, version: int) -> dict[str, Any]:
    definition = {"source": [f"('blobs', 'mnist/v{version}/**')"], "definition": ["GetDatastoreFiles"]}
    return {"id": f"d-{version}", "name": name, "version": version, "description": "d", "definition": definition}


def export(
    service: Mapping[str, Any],
    folder: Path,
    *arguments: str,
    python: str = sys.executable,
    script: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the script in a process that has Microsoft's SDK and nothing of ours."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    state = folder.parent / "service.json"
    state.write_text(json.dumps(service))
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RUNYARD"))}
    environ.update(AZURE_SERVICE=str(state), PYTHONPATH=str(HERE / "azure_service"), RUNYARD_EXPORT_PAUSE="0.01")
    script = script or HERE.parent.parent / "src" / "runyard" / "imports" / "azureml" / "export.py"
    command = [python, "-S", str(script), str(folder), "--threads", "3", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def calls(folder: Path) -> list[str]:
    """Return what was asked of the service since the last time."""
    path = folder.parent / "service.json.calls"
    found = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found
