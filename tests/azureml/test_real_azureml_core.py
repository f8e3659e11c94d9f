"""Microsoft's own azureml-core: in a run's environment, and beside us in one environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.sdk.environments.environment import Environment
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace
from tests.interpreters import find_interpreter

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]
ROOT = Path(__file__).parent.parent.parent


def uv(*arguments: str) -> None:
    command = Path(sys.executable).parent / "uv"
    program = str(command) if command.exists() else shutil.which("uv")
    assert program, "uv is needed: pip install uv"
    subprocess.run([program, *arguments], check=True, cwd=ROOT, timeout=500)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def make_environment(folder: Path, *packages: str) -> Path:
    """Return the interpreter of a new environment with `packages` installed one after another."""
    interpreter = find_interpreter("3.10") or find_interpreter("3.9")
    assert interpreter, "Python 3.10 or 3.9 is needed: azureml-core has no release for newer ones"
    uv("venv", "--quiet", "--python", interpreter, str(folder))
    python = folder / "bin" / "python"
    for package in packages:
        extra = ["--no-deps"] if package.endswith(".whl") else ["setuptools"]
        uv("pip", "install", "--quiet", "--python", str(python), package, *extra)
    return python


def run_code(python: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def microsofts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("theirs") / "env", "azureml-core")


SCRIPT = """
import azureml.core
import azureml._file_utils
from azureml.core import Run
from azureml.core.run import _OfflineRun
run = Run.get_context()
assert not isinstance(run, _OfflineRun)
run.log("module", type(run).__module__)
run.log("theirs", "site-packages" in azureml._file_utils.__file__)
run.log("experiment", run.experiment.name)
"""


def test_ours_wins_in_a_run_whose_environment_has_theirs(
    microsofts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "site-packages" in run_code(microsofts, "import azureml.core; print(azureml.core.__file__)").stdout
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(SCRIPT)
    environment = Environment("theirs")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = str(microsofts)
    experiment = Experiment(Workspace.from_config(), "with_the_real_one")
    run = experiment.submit(ScriptRunConfig("project", "train.py", environment=environment))
    run.wait_for_completion()

    assert run.get_metrics() == {
        "module": "runyard.sdk.runs.context",
        "theirs": True,
        "experiment": "with_the_real_one",
    }


def test_ours_wins_from_pythonpath(microsofts: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    code = "import azureml.core, azureml._file_utils; print(azureml.core.__file__, azureml._file_utils.__file__)"
    done = subprocess.run([str(microsofts), "-c", code], env=environ, capture_output=True, text=True, check=True)
    ours, theirs = done.stdout.split()

    assert ours == str(ROOT / "src/azureml/core/__init__.py")
    assert "site-packages" in theirs


@pytest.mark.parametrize("ours_last", [True, False], ids=["ours last", "theirs last"])
def test_both_in_one_environment_is_an_error_that_says_what_to_uninstall(
    wheel: Path, tmp_path: Path, ours_last: bool
) -> None:
    packages = ["azureml-core", str(wheel)] if ours_last else [str(wheel), "azureml-core"]
    python = make_environment(tmp_path / "env", *packages)
    done = run_code(python, "import azureml.core")

    assert done.returncode != 0
    assert "pip uninstall -y azureml-core" in done.stderr


def test_the_remedy_works(wheel: Path, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env", str(wheel), "azureml-core")
    uv("pip", "uninstall", "--quiet", "--python", str(python), "azureml-core")
    uv("pip", "install", "--quiet", "--python", str(python), "--reinstall", "--no-deps", str(wheel))
    done = run_code(python, "import azureml.core; print(azureml.core.Workspace.__module__)")

    assert done.stdout == "runyard.sdk.workspaces.workspace\n", done.stderr


WHAT_THE_EXPORT_CALLS = """
import inspect
from azureml._restclient.metrics_client import MetricsClient
from azureml.core import Dataset, Datastore, Environment, Experiment, Model, Run, Workspace
for function, names in (
    (Workspace.get, "name subscription_id resource_group"), (Workspace.from_config, "path"),
    (Experiment.list, "workspace view_type"), (Experiment.get_runs, "include_children"),
    (Run.__init__, "experiment run_id"), (Run.get_details, ""), (Run.get_tags, ""), (Run.get_properties, ""),
    (Run.get_metrics, ""), (Run.get_file_names, ""), (Run.download_file, "name output_file_path"),
    (Run.restore_snapshot, "snapshot_id path"), (Model.list, "workspace"), (Model.download, "target_dir exist_ok"),
    (Environment.list, "workspace"), (Environment.get, "workspace name version"),
    (Environment.save_to_directory, "path overwrite"), (Dataset.get_all, "workspace"),
    (Dataset.get_by_name, "workspace name version"),
    (MetricsClient.list_metric_names_for_run_id, "run_id"), (MetricsClient.get_metric_dto_for_run_v2, "name run_id"),
):
    assert set(names.split()) <= set(inspect.signature(function).parameters), function
"""


def test_the_export_script_calls_what_the_real_sdk_has(microsofts: Path, tmp_path: Path) -> None:
    script = ROOT / "src" / "runyard" / "imports" / "azureml" / "export.py"
    found = run_code(microsofts, WHAT_THE_EXPORT_CALLS)
    assert found.returncode == 0, found.stderr
    command = [str(microsofts), str(script), str(tmp_path / "export"), "--config", str(tmp_path / "none.json")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert refused.returncode == 1 and "error: the workspace cannot be opened: UserErrorException" in refused.stderr
