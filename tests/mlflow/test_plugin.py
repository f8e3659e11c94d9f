"""MLflow's own client outside of runs, through the plug-in: a private server, and a team's with its own certificate."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Workspace
from runyard.core.config.logins import Login, store_login
from runyard.runtime.injection import injection_folder
from tests.conftest import end_home
from tests.mlflow.servers import client_variables, make_environment
from tests.server.private import start
from tests.server.team import start_team, team_address

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]

CLIENTS = ["2.22.5", "3.17.2"]
ROOT = Path(__file__).parent.parent.parent
JOURNEY = """
import json, os, sys
import mlflow
from azureml.core import Workspace
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

uri = Workspace.from_config().get_mlflow_tracking_uri()
mlflow.set_tracking_uri(uri)
mlflow.set_experiment("outside of runs")
with mlflow.start_run(run_name="first") as run:
    mlflow.log_param("lr", 0.1)
    for step in range(3):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_metrics({"nan": float("nan")})
    mlflow.set_tag("who", "me")
    mlflow.log_text("text ä", "a folder/ä.txt")
    mlflow.log_dict({"k": 1}, "gone.json")
    with mlflow.start_run(nested=True) as child:
        mlflow.log_metric("inner", 1.0)
client = mlflow.MlflowClient()
found = client.get_run(run.info.run_id)
repository = get_artifact_repository(found.info.artifact_uri)
before = [(file.path, file.is_dir, file.file_size) for file in repository.list_artifacts()]
repository.delete_artifacts("gone.json")
try:
    client.get_run("0" * 32)
except mlflow.exceptions.MlflowException as error:
    unknown = error.error_code
print("TOLD " + json.dumps({
    "uri": uri,
    "run": run.info.run_id,
    "artifact_uri": found.info.artifact_uri,
    "status": found.info.status,
    "data": [found.data.params, found.data.metrics["loss"], found.data.tags["who"]],
    "history": [point.value for point in client.get_metric_history(run.info.run_id, "loss")],
    "before": before,
    "after": [file.path for file in client.list_artifacts(run.info.run_id)],
    "below": [file.path for file in client.list_artifacts(run.info.run_id, "a folder")],
    "whole": os.listdir(mlflow.artifacts.download_artifacts(artifact_uri=found.info.artifact_uri)),
    "text": open(repository.download_artifacts("a folder/ä.txt"), encoding="utf-8").read(),
    "searched": [one.info.run_id for one in client.search_runs([found.info.experiment_id], "metrics.loss < 0.4")],
    "child_of": client.get_run(child.info.run_id).data.tags["mlflow.parentRunId"],
    "unknown": unknown,
}))
"""
PROJECT = """
import json, os, sys
import mlflow
from azureml.core import Workspace
from azureml.mlflow import get_portal_url, register_model
from mlflow.projects.utils import load_project
from runyard.mlflow.projects import environment_of

mlflow.set_tracking_uri(Workspace.from_config().get_mlflow_tracking_uri())
run = mlflow.projects.run("project", parameters={"alpha": 0.25}, backend="azureml", backend_config={"COMPUTE": "LOCAL"},
                          experiment_name="projects", env_manager="local", run_name="of a project", synchronous=False)
done = run.wait()
found = mlflow.get_run(run.run_id)
model = register_model(found, "net", "net/weights.txt", tags={"of": "a project"})
packages = environment_of(load_project("described"), {}).python.conda_dependencies
print("TOLD " + json.dumps({
    "done": [done, run.get_status()],
    "data": [found.data.metrics, found.data.params["alpha"], found.info.run_name],
    "model": [model.name, model.version, model.tags, model.run_id == run.run_id],
    "url": get_portal_url(found) == get_portal_url(model.run),
    "packages": [sorted(packages.pip_packages), packages.get_python_version()],
    "warnings": run._run.get_details().get("warnings", []),
    "image": environment_of(load_project("contained"), {}).docker.base_image,
}))
"""


@pytest.fixture(params=CLIENTS)
def python(request: pytest.FixtureRequest) -> Path:
    version = request.param
    return make_environment(ROOT / f".venv/mlflow-skinny-{version}", f"mlflow-skinny=={version}")


@pytest.fixture
def team(home: Path, session_folder: Path) -> Iterator[str]:
    """A team's server whose certificate no authority signed, and the login of this home for it."""
    other = session_folder / "team"
    other.mkdir(mode=0o700)
    try:
        address = team_address(start_team(other))
        store_login(home, Login(str(address), address.token, address.fingerprint))
        yield str(address)
    finally:
        end_home(other)


def journey(python: Path, home: Path, script: str = JOURNEY, folder: Path | None = None) -> dict[str, object]:
    done = subprocess.run(
        [str(python), "-c", script],
        env=client_variables(RUNYARD_HOME=str(home), PYTHONPATH=str(injection_folder(home))),
        cwd=folder or home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, object] = json.loads(done.stdout.partition("TOLD ")[2].splitlines()[0])
    return told


def check(told: dict[str, object]) -> None:
    run, uri = told.pop("run"), str(told.pop("uri")).rstrip("?")
    assert told == {
        "artifact_uri": f"{uri}/runs/{run}",
        "status": "FINISHED",
        "data": [{"lr": "0.1"}, 1 / 3, "me"],
        "history": [1.0, 0.5, 1 / 3],
        "before": [["a folder", True, None], ["gone.json", False, 12]],
        "after": ["a folder"],
        "below": ["a folder/ä.txt"],
        "whole": ["a folder"],
        "text": "text ä",
        "searched": [run],
        "child_of": run,
        "unknown": "RESOURCE_DOES_NOT_EXIST",
    }


def test_a_private_server_is_found_by_its_socket(python: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(home)
    told = journey(python, home)
    run_id = str(told["run"])
    check(told)

    monkeypatch.chdir(home)
    run = Workspace.from_config().get_run(run_id)
    assert (run.get_metrics()["loss"], run.display_name) == ([1.0, 0.5, 1 / 3], "first")


def test_a_teams_server_is_found_by_its_login(python: Path, home: Path, team: str) -> None:
    told = journey(python, home)

    assert str(told["uri"]).startswith(f"azureml://{team.partition('://')[2]}/mlflow/")
    check(told)
    assert not (home / "server").exists()


@pytest.mark.parametrize("python", CLIENTS[-1:], indirect=True)
def test_a_project_is_a_submitted_run(python: Path, home: Path, tmp_path: Path) -> None:
    for name, text in {
        "project/MLproject": "name: p\nentry_points:\n  main:\n    parameters: {alpha: float}\n"
        "    command: 'python train.py --alpha {alpha}'\n",
        "project/train.py": "import sys, mlflow\nmlflow.log_param('alpha', sys.argv[2])\nmlflow.log_metric('m', 2)\n"
        "mlflow.log_text('w', 'net/weights.txt')\n",
        "described/MLproject": "name: d\npython_env: python_env.yaml\n",
        "described/python_env.yaml": "python: '3.10'\ndependencies: ['-r more.txt', 'numpy<3']\n",
        "described/more.txt": "pandas==2.2.0\n",
        "contained/MLproject": "name: c\ndocker_env:\n  image: python:3.11-slim\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    start(home)
    told = journey(python, home, PROJECT, folder=tmp_path)

    assert told == {
        "done": [True, "FINISHED"],
        "data": [{"m": 2.0}, "0.25", "of a project"],
        "model": ["net", 1, {"of": "a project"}, True],
        "url": True,
        "packages": [["mlflow-skinny", "numpy<3", "pandas==2.2.0"], "3.10"],
        "warnings": [],
        "image": "python:3.11-slim",
    }
