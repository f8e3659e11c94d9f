"""`Model.profile`: a run that replays a dataset against a service of its own, and says what it needs."""

from __future__ import annotations

import json
import math
import os
import tempfile
from typing import TYPE_CHECKING, Any, List, Optional

from runyard.core.errors import NotFound
from runyard.core.webservices import Definition
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts
from runyard.sdk.data.kinds import TabularDataset
from runyard.sdk.environments.plan import names_image
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException, WebserviceException
from runyard.sdk.run_config.run_configuration import DockerConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.runs.run import Run
from runyard.sdk.serving.package import plan_package, write_service
from runyard.sdk.workspaces.experiment import Experiment

if TYPE_CHECKING:
    from runyard.sdk.serving.inference_config import InferenceConfig
    from runyard.sdk.workspaces.workspace import Workspace

EXPERIMENT = "model_profiles"
NAME_TAG, CPU_TAG, MEMORY_TAG = "profile", "requested_cpu", "requested_memory_in_gb"
OUTPUT = "outputs/profile.json"
_REQUESTS = "requests.jsonl"
_CPU, _MEMORY = (0.1, 3.5), (0.1, 15.0)
_STATES = {"Completed": "Succeeded", "Failed": "Failed", "Canceled": "Failed", "NotStarted": "NotStarted"}
_FIGURES = (
    "maxUtilizedCpu",
    "maxUtilizedMemoryInGB",
    "totalQueries",
    "successQueries",
    "successRate",
    "averageLatencyInMs",
    "latencyPercentile50InMs",
    "latencyPercentile90InMs",
    "latencyPercentile95InMs",
    "latencyPercentile99InMs",
    "latencyPercentile999InMs",
    "measuredQueriesPerSecond",
    "recommendedCpu",
    "recommendedMemoryInGB",
)


@raises_azure_errors
class ModelProfile(AzureClass):
    """A profile by its name; `Model.profile` starts one. `run` is the run that replays the requests.

    Raises:
        WebserviceException: there is none of that name.
    """

    def __init__(self, workspace: Workspace, name: str) -> None:
        runs = workspace._client.runs.iter(workspace.name, experiment=EXPERIMENT, tag=f"{NAME_TAG}={name}", limit=1)
        found = next(iter(runs), None)
        if found is None:
            raise WebserviceException(f"There is no profile `{name}` in workspace `{workspace.name}`.")
        self._set(workspace, name, workspace.get_run(found.id))

    @classmethod
    def _of(cls, workspace: Workspace, name: str, run: Run) -> ModelProfile:
        made = cls.__new__(cls)
        made._set(workspace, name, run)
        return made

    def _set(self, workspace: Workspace, name: str, run: Run) -> None:
        self.workspace = workspace
        self.name = name
        self.run = run

    @property
    def state(self) -> str:
        """NotStarted, Running, Succeeded or Failed, as it is now."""
        return _STATES.get(self.run.get_status(), "Running")

    def wait_for_completion(self, show_output: bool = False) -> None:
        """Wait until all requests are answered.

        Raises:
            WebserviceException: the service does not start; the end of its log is in the message.
        """
        self.run.wait_for_completion(show_output=show_output, raise_on_error=False)
        details = self.get_details()
        if details["state"] == "Failed":
            raise WebserviceException(f"The profile `{self.name}` failed.\n{details.get('error')}")

    def get_details(self) -> Definition:
        """Return the figures: what was asked for, what was used, latencies at the highest rate, and advice."""
        tags = self.run.get_tags()
        found: Definition = {
            "name": self.name,
            "state": self.state,
            "requestedCpu": _number(tags.get(CPU_TAG)),
            "requestedMemoryInGB": _number(tags.get(MEMORY_TAG)),
            "requestedQueriesPerSecond": 0.0,  # as many as there are
        }
        if found["state"] == "Failed":
            found["error"] = self._error()
        if found["state"] != "Succeeded":
            return found
        figures = self._figures()
        return {**found, **{name: figures.get(name) for name in _FIGURES}}

    def serialize(self) -> Definition:
        return self.get_details()

    def get_logs(self) -> str:
        """Return what the service and the replay printed."""
        from runyard.sdk.runs.details import log_text  # few profiles are read

        try:
            return log_text(self.run, "user_logs/std_log.txt")
        except NotFound:
            return ""

    def _error(self) -> str:
        details: Definition = dict(self.run.get_details().get("error") or {})
        error = details.get("error") or {}
        return f"{error.get('message', '')}\n{self.get_logs()[-3000:]}".strip()

    def _figures(self) -> Definition:
        with tempfile.TemporaryDirectory(prefix="runyard-profile-") as folder:
            path = os.path.join(folder, "profile.json")
            self.run.download_file(OUTPUT, path)
            with open(path, encoding="utf-8") as file:
                figures: Definition = json.load(file)
        return figures


def start_profile(
    workspace: Workspace,
    name: str,
    models: Any,
    inference_config: InferenceConfig,
    input_dataset: Any,
    *,
    cpu: Optional[float],
    memory_in_gb: Optional[float],
    description: Optional[str],
) -> ModelProfile:
    """Submit the run of a profile; see `Model.profile`."""
    check_texts(profile_name=name, description=description)
    _check_range("cpu", cpu, _CPU)
    _check_range("memory_in_gb", memory_in_gb, _MEMORY)
    requests = _requests_of(input_dataset)
    plan = plan_package(workspace, models, inference_config)
    with tempfile.TemporaryDirectory(prefix="runyard-profile-") as folder:
        write_service(plan, folder)
        with open(os.path.join(folder, _REQUESTS), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(body) + "\n" for body in requests)
        environment = plan.environment
        docker = DockerConfiguration(use_docker=environment.docker.enabled or names_image(environment))
        workers = max(1, math.ceil(cpu or 1.0))
        config = ScriptRunConfig(
            source_directory=folder,
            command=f"python -m runyard.serving.replay --requests {_REQUESTS} --workers {workers}",
            environment=environment,
            docker_runtime_config=docker,
        )
        asked = {CPU_TAG: cpu, MEMORY_TAG: memory_in_gb, "description": description}
        tags = {NAME_TAG: name, **{key: str(value) for key, value in asked.items() if value is not None}}
        run = Experiment(workspace, EXPERIMENT).submit(config, tags=tags)
    return ModelProfile._of(workspace, name, run)


def _check_range(name: str, value: Any, limits: Any) -> None:
    low, high = limits
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high
    ):
        raise UserErrorException(f"{name} must be a number from {low} to {high}, found {value!r:.50}.")


def _requests_of(dataset: Any) -> List[str]:
    """Return the bodies in a dataset of one text column."""
    if not isinstance(dataset, TabularDataset):
        raise UserErrorException(
            f"input_dataset must be a TabularDataset with one column of request bodies, found {type(dataset).__name__}."
        )
    table = dataset.to_pandas_dataframe()
    if len(table.columns) != 1:
        raise UserErrorException(
            f"input_dataset must have one column, the bodies of requests as text; it has {len(table.columns)}: "
            f"{', '.join(map(str, table.columns))[:200]}."
        )
    bodies = list(table.iloc[:, 0])
    strange = next((one for one in bodies if not isinstance(one, str)), None)
    if strange is not None or not bodies:
        found = f"a {type(strange).__name__}" if strange is not None else "no row"
        raise UserErrorException(f"input_dataset must hold the bodies of requests as text; it has {found}.")
    return bodies


def _number(text: Optional[str]) -> Optional[float]:
    return float(text) if text else None
