"""MLflow's projects on the backend `azureml`: an entry point becomes a submitted run (`mlflow run -b azureml`)."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Mapping, Optional

from mlflow.entities import RunStatus
from mlflow.projects.submitted_run import SubmittedRun
from mlflow.projects.utils import fetch_and_validate_project, load_project
from mlflow.tracking import MlflowClient
from mlflow.utils.environment import _PythonEnv

from runyard.core.provided_packages import package_name
from runyard.mlflow.azure import workspace_at
from runyard.sdk.environments.environment import Environment
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.experiment import Experiment

COMPUTE, STREAM_OUTPUT, USE_CONDA = "COMPUTE", "STREAM_OUTPUT", "USE_CONDA"
_ENV_MANAGER, _STORAGE = "ENV_MANAGER", "STORAGE_DIR"
_CONDA = "conda"
_CLIENTS = ("mlflow", "mlflow-skinny", "azureml-mlflow")
_ENDED = {"Completed": RunStatus.FINISHED, "Failed": RunStatus.FAILED, "Canceled": RunStatus.KILLED}
_WAITING = ("NotStarted", "Queued", "Preparing", "Provisioning", "Starting")


class AzuremlBackend:
    """MLflow's entry point `mlflow.project_backend`."""

    def run(
        self,
        project_uri: str,
        entry_point: str,
        params: Mapping[str, Any],
        version: Optional[str],
        backend_config: Optional[Mapping[str, Any]],
        tracking_uri: str,
        experiment_id: str,
    ) -> ProjectRun:
        """Submit the entry point's command; return at once."""
        config = dict(backend_config or {})
        folder = fetch_and_validate_project(project_uri, version, entry_point, params)
        project = load_project(folder)
        command = project.get_entry_point(entry_point).compute_command(params, config.get(_STORAGE))
        name = MlflowClient(tracking_uri).get_experiment(experiment_id).name
        source = ScriptRunConfig(
            source_directory=folder,
            command=[command],
            compute_target=target_of(config),
            environment=environment_of(project, config),
        )
        run = Experiment(workspace_at(tracking_uri), name).submit(source)
        return ProjectRun(run, stream=bool(config.get(STREAM_OUTPUT, True)))


class ProjectRun(SubmittedRun):  # type: ignore[misc]  # MLflow is not there when types are checked
    """A submitted entry point, as MLflow follows it."""

    def __init__(self, run: Run, *, stream: bool) -> None:
        super().__init__()
        self._run = run
        self._stream = stream

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def get_portal_url(self) -> str:
        """The address of the run's page."""
        return self._run.get_portal_url()

    def wait(self) -> bool:
        """Wait for the end; return whether the run completed."""
        details = self._run.wait_for_completion(show_output=self._stream, raise_on_error=False)
        return details["status"] == "Completed"

    def get_status(self) -> str:
        status = self._run.get_status()
        if status in _WAITING:
            return str(RunStatus.to_string(RunStatus.SCHEDULED))
        return str(RunStatus.to_string(_ENDED.get(status, RunStatus.RUNNING)))

    def cancel(self) -> None:
        self._run.cancel()
        self._run.wait_for_completion(raise_on_error=False)


def target_of(config: Mapping[str, Any]) -> str:
    """Return the compute target that a backend configuration names; Azure's writes `LOCAL` too."""
    target = str(config.get(COMPUTE) or "local")
    return "local" if target.lower() == "local" else target


def environment_of(project: Any, config: Mapping[str, Any]) -> Environment:
    """Return the environment that an MLproject file describes; this Python's without one or where it is not wanted."""
    if project.docker_env:
        return Environment.from_docker_image("mlflow-project", project.docker_env["image"])
    path = getattr(project, "env_config_path", None) or getattr(project, "conda_env_path", None)
    is_local = config.get(_ENV_MANAGER) == "local" or config.get(USE_CONDA) in (False, "False", "false")
    if not path or is_local:
        environment = Environment("mlflow-project")
        environment.python.user_managed_dependencies = True
        return environment
    is_python = getattr(project, "env_type", _CONDA) != _CONDA
    environment = _python_environment(path) if is_python else Environment.from_conda_specification("project", path)
    packages = environment.python.conda_dependencies
    named = {package_name(line) for line in [*packages.pip_packages, *packages.conda_packages]}
    if not named.intersection(_CLIENTS):
        packages.add_pip_package("mlflow-skinny")  # a project logs to the run it is
    return environment


def _python_environment(path: str) -> Environment:
    """Return the environment of a `python_env.yaml`, whose lines may be those of a requirements file."""
    found = _PythonEnv.from_yaml(path)
    place = os.path.dirname(os.path.abspath(path))
    lines = [_absolute(line, place) for line in [*found.build_dependencies, *found.dependencies]]
    with tempfile.TemporaryDirectory() as folder:
        requirements = os.path.join(folder, "requirements.txt")
        with open(requirements, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        environment = Environment.from_pip_requirements("mlflow-project", requirements)
    environment.python.conda_dependencies.set_python_version(found.python)
    return environment


def _absolute(line: str, folder: str) -> str:
    """Name the file of a `-r` or `-c` line from the root: the line moves to another folder."""
    option, _, name = line.strip().partition(" ")
    return f"{option} {os.path.join(folder, name.strip())}" if option in ("-r", "-c") else line
