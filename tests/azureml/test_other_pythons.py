"""The oldest and the newest Python there is: importing, submitting from it, and running under it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from runyard.sdk.environments.environment import Environment
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace
from tests.interpreters import find_interpreter

SOURCE = Path(__file__).parent.parent.parent / "src"
VERSIONS = ["3.8", "3.9", "3.10", "3.12", "3.13"]
OLDEST_AND_NEWEST = ["3.8", "3.13"]

IMPORT_ALL = """
import importlib, os, sys
root = sys.argv[1]
for package in ("azureml", "runyard/core", "runyard/runtime", "runyard/client", "runyard/snapshots", "runyard/sdk"):
    for folder, _, files in os.walk(os.path.join(root, package)):
        for file in sorted(files):
            name = os.path.relpath(os.path.join(folder, file), root)[:-3].replace(os.sep, ".")
            if file.endswith(".py") and name.startswith("runyard.mlflow."):  # MLflow loads it, and is not here
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    compile(source.read(), file, "exec")
            elif file.endswith(".py") and not name.endswith("__main__"):
                importlib.import_module(name[: -len(".__init__")] if name.endswith(".__init__") else name)
files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
print([file for file in files if "site-packages" in file])
"""

TRAIN = """
import sys
from azureml.core import Run
run = Run.get_context()
assert run is Run.get_context()
run.log("python", "%d.%d" % sys.version_info[:2])
for value in (1, 2.5):
    run.log("mixed", value)
run.log_list("list", (n for n in (1, 2)))
run.log_row("row", "described", x=1)
run.log_table("table", {"x": [1, 2]})
run.log_confusion_matrix("matrix", '{"a": 1}')
run.tag("inside", "yes")
run.upload_file("up.txt", __file__)
assert run.get_metrics("mixed") == {"mixed": [1.0, 2.5]}
assert run.get_tags() == {"inside": "yes"}
assert run.experiment.workspace.name == "default"
assert run.get_status() == "Running"
try:
    run.log("list", [1])
except Exception as error:
    run.log("refused", type(error).__name__)
"""

SUBMIT = """
import json, sys
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
experiment = Experiment(Workspace.from_config(), "from_another_python")
run = experiment.submit(ScriptRunConfig("project", "train.py"))
run.wait_for_completion()
print(json.dumps([run.get_metrics(), run.get_file_names()]))
"""


@pytest.fixture(params=VERSIONS)
def interpreter(request: pytest.FixtureRequest) -> str:
    return need(request.param)


def need(version: str) -> str:
    found = find_interpreter(version)
    if found is None:
        pytest.skip(f"there is no Python {version} here")
    return found


def expected_metrics(version: str, run_id: str) -> dict[str, object]:
    return {
        "python": version,
        "mixed": [1.0, 2.5],
        "list": [1, 2],
        "row": {"x": 1},
        "table": {"x": [1, 2]},
        "matrix": f"aml://artifactId/ExperimentRun/dcid.{run_id}/matrix",
        "refused": "UserErrorException",
    }


def test_all_that_is_injected_imports(interpreter: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [interpreter, "-S", "-W", "error", "-c", IMPORT_ALL, str(SOURCE)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == "" and done.stdout == "[]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.mark.parametrize("version", OLDEST_AND_NEWEST)
def test_a_run_goes_under_it(project: Path, version: str) -> None:
    environment = Environment("other")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = need(version)
    experiment = Experiment(Workspace.from_config(), "under_another_python")
    run = experiment.submit(ScriptRunConfig("project", "train.py", environment=environment))
    run.wait_for_completion()

    assert run.get_metrics() == expected_metrics(version, run.id)
    assert run.tags == {"inside": "yes"}
    assert {"up.txt", "matrix"} <= set(run.get_file_names())


@pytest.mark.parametrize("version", OLDEST_AND_NEWEST)
def test_a_run_is_submitted_from_it(project: Path, version: str) -> None:
    Workspace.from_config()  # the server itself needs a newer Python, so it is started from here
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [need(version), "-c", SUBMIT], env=environ, cwd=project, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    metrics, files = json.loads(done.stdout)
    run_id = metrics["matrix"].split("/")[4][len("dcid.") :]
    assert metrics == expected_metrics(version, run_id)
    assert "up.txt" in files
