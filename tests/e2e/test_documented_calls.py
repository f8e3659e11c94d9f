"""The calls of Microsoft's pages on configuring runs, in their order, with what they leave read by another process.

`test_estimators.py`, `test_horovod_tensorflow.py` and `test_tensorboard.py` hold those of the framework pages.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from azureml.train.dnn import PyTorch, TensorFlow
from azureml.train.estimator import Estimator
from tests.e2e.estimating import get_pool

TRAIN = """
import json, os, sys
from azureml.core import Run

run = Run.get_context()
losses = [1 / n for n in range(1, 101)]
run.log_list("losses", losses[:60])
run.log_list("losses", losses[60:])
for folder in ("outputs", "logs"):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "my_output_file"), "w") as file:
        file.write(" ".join(sys.argv[1:]))
run.log("python", sys.executable)
run.log("world", " ".join(os.environ.get(name, "-") for name in ("RANK", "WORLD_SIZE", "TF_CONFIG"))[:80])
if "--fail" in sys.argv:
    print(undefined_name)
"""
READ = """
import json, sys
from azureml.core import Run, Workspace

run = Run.get(Workspace.from_config(), sys.argv[1])
run.download_file(name="outputs/my_output_file", output_file_path="my_destination_path")
print(json.dumps({
    "status": run.get_status(),
    "metrics": run.get_metrics(),
    "files": run.get_file_names(),
    "target": run.get_details()["target"],
    "git": {name: value for name, value in run.properties.items() if name.startswith("azureml.git")},
    "text": open("my_destination_path").read(),
}))
"""


def read_outside(run: Run, folder: Path) -> dict[str, Any]:
    """Return what another process finds of the run."""
    done = subprocess.run(
        [sys.executable, "-c", READ, run.id], check=True, capture_output=True, text=True, cwd=folder, timeout=60
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def project_folder(project: Path) -> str:
    (project / "train.py").write_text(TRAIN)
    subprocess.run(["git", "init", "-q", "-b", "trunk"], cwd=project, check=True)
    subprocess.run(["git", "add", "."], cwd=project, check=True)
    name = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", *name, "commit", "-q", "-m", "first"], cwd=project, check=True)
    return str(project)


@pytest.fixture
def myenv() -> Environment:
    environment = Environment("user-managed-env")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = sys.executable
    return environment


def test_a_configured_run_from_the_first_block_to_the_last(
    workspace: Workspace, project_folder: str, myenv: Environment, tmp_path: Path
) -> None:
    my_compute_target = get_pool(workspace)
    experiment = Experiment(workspace=workspace, name="my_experiment")
    src = ScriptRunConfig(
        source_directory=project_folder,
        script="train.py",
        compute_target=my_compute_target,
        environment=myenv,
        arguments=["--arg1", 1, "--arg2", "two"],
        max_run_duration_seconds=60,
    )
    src.run_config.target = my_compute_target
    run = experiment.submit(config=src)
    run.wait_for_completion(show_output=True)
    found = read_outside(run, tmp_path)

    assert (found["status"], found["target"]) == ("Completed", my_compute_target.name)
    assert found["metrics"]["losses"] == [1 / n for n in range(1, 101)]
    assert found["metrics"]["python"] == sys.executable
    assert found["text"] == "--arg1 1 --arg2 two"
    assert {"outputs/my_output_file", "logs/my_output_file"} <= set(found["files"])
    assert found["git"]["azureml.git.branch"] == "trunk"

    failed = experiment.submit(
        ScriptRunConfig(project_folder, "train.py", arguments=["--fail"], compute_target="local", environment=myenv)
    )
    failed.wait_for_completion(raise_on_error=False)
    assert "NameError: name 'undefined_name' is not defined" in failed.get_details()["error"]["error"]["message"]
    assert any(name.startswith("user_logs/") for name in failed.get_details()["logFiles"])
    experiment.archive()
    assert "my_experiment" not in [one.name for one in Experiment.list(workspace)]


@pytest.mark.parametrize(
    ("distribution", "told"),
    [(PyTorchConfiguration(process_count=2, node_count=2), "2"), (TensorflowConfiguration(worker_count=2), "worker")],
    ids=["PyTorch", "TensorFlow"],
)
def test_a_distributed_job_configuration_reaches_the_script(
    workspace: Workspace, project_folder: str, myenv: Environment, tmp_path: Path, distribution: Any, told: str
) -> None:
    src = ScriptRunConfig(
        project_folder,
        "train.py",
        compute_target=get_pool(workspace),
        environment=myenv,
        distributed_job_config=distribution,
    )
    run = Experiment(workspace, "distributed").submit(src)
    run.wait_for_completion()
    worlds = run.get_metrics()["world"]

    assert read_outside(run, tmp_path)["status"] == "Completed"
    assert len(worlds) >= 2 and all(told in world for world in worlds)


def test_the_names_of_the_pages_have_their_defaults(workspace: Workspace) -> None:
    minimal = Environment.get(workspace=workspace, name="AzureML-Minimal")

    assert minimal.name == "AzureML-Minimal"
    assert MpiConfiguration(process_count_per_node=1, node_count=2).node_count == 2
    defaults = {name: one.default for name, one in inspect.signature(TensorFlow).parameters.items()}
    expected = {
        "use_gpu": False,
        "node_count": 1,
        "process_count_per_node": 1,
        "distributed_backend": None,
        "worker_count": 1,
        "parameter_server_count": 1,
    }
    assert {name: defaults[name] for name in expected} == expected
    documented = {
        "source_directory",
        "script_params",
        "compute_target",
        "entry_script",
        "conda_packages",
        "pip_packages",
    }
    packages = {"pip_requirements_file", "conda_dependencies_file", "environment_definition"}
    assert documented <= set(defaults)
    for estimator in (Estimator, PyTorch, TensorFlow):
        assert documented | packages <= set(inspect.signature(estimator).parameters)
