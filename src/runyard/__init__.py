"""Runyard: submit training runs, track them, tune them and scale them on machines you own."""

from __future__ import annotations

__version__ = "0.2.0"

TYPE_CHECKING = False  # checkers know the name; importing typing would cost every rank's start 10 ms
if TYPE_CHECKING:
    from typing import Any, Iterator, List

    from runyard.core.errors import RunFailed, RunyardError, SystemFailure, UserError
    from runyard.native.beginning import CurrentRun, init
    from runyard.native.finding import get, runs, wait
    from runyard.native.handle import RunHandle
    from runyard.native.metrics import MetricPoint, Metrics
    from runyard.native.recording import log, log_file, log_image, log_table
    from runyard.native.submitting import run
    from runyard.sdk.compute.attached import RayCompute, RemoteCompute, SlurmCompute
    from runyard.sdk.compute.pools import AmlCompute, ComputeInstance
    from runyard.sdk.compute.target import ComputeTarget
    from runyard.sdk.data.datastore import Datastore
    from runyard.sdk.data.inputs import DataPath, DataReference
    from runyard.sdk.environments.conda_dependencies import CondaDependencies
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.estimators.estimator import Estimator
    from runyard.sdk.run_config.resources import Resources
    from runyard.sdk.run_config.run_configuration import (
        DockerConfiguration,
        MpiConfiguration,
        PyTorchConfiguration,
        RunConfiguration,
        TensorflowConfiguration,
    )
    from runyard.sdk.run_config.script_run_config import ScriptRunConfig
    from runyard.sdk.runs.run import Run, ScriptRun, get_run
    from runyard.sdk.workspaces.experiment import Experiment
    from runyard.sdk.workspaces.workspace import Workspace

_HOMES = {
    "AmlCompute": "runyard.sdk.compute.pools",
    "ComputeInstance": "runyard.sdk.compute.pools",
    "ComputeTarget": "runyard.sdk.compute.target",
    "CondaDependencies": "runyard.sdk.environments.conda_dependencies",
    "CurrentRun": "runyard.native.beginning",
    "DataPath": "runyard.sdk.data.inputs",
    "DataReference": "runyard.sdk.data.inputs",
    "Datastore": "runyard.sdk.data.datastore",
    "DockerConfiguration": "runyard.sdk.run_config.run_configuration",
    "Environment": "runyard.sdk.environments.environment",
    "Estimator": "runyard.sdk.estimators.estimator",
    "Experiment": "runyard.sdk.workspaces.experiment",
    "MetricPoint": "runyard.native.metrics",
    "Metrics": "runyard.native.metrics",
    "MpiConfiguration": "runyard.sdk.run_config.run_configuration",
    "PyTorchConfiguration": "runyard.sdk.run_config.run_configuration",
    "RayCompute": "runyard.sdk.compute.attached",
    "RemoteCompute": "runyard.sdk.compute.attached",
    "Resources": "runyard.sdk.run_config.resources",
    "Run": "runyard.sdk.runs.run",
    "RunConfiguration": "runyard.sdk.run_config.run_configuration",
    "RunFailed": "runyard.core.errors",
    "RunHandle": "runyard.native.handle",
    "RunyardError": "runyard.core.errors",
    "ScriptRun": "runyard.sdk.runs.run",
    "ScriptRunConfig": "runyard.sdk.run_config.script_run_config",
    "SlurmCompute": "runyard.sdk.compute.attached",
    "SystemFailure": "runyard.core.errors",
    "TensorflowConfiguration": "runyard.sdk.run_config.run_configuration",
    "UserError": "runyard.core.errors",
    "Workspace": "runyard.sdk.workspaces.workspace",
    "get": "runyard.native.finding",
    "get_run": "runyard.sdk.runs.run",
    "init": "runyard.native.beginning",
    "log": "runyard.native.recording",
    "log_file": "runyard.native.recording",
    "log_image": "runyard.native.recording",
    "log_table": "runyard.native.recording",
    "run": "runyard.native.submitting",
    "runs": "runyard.native.finding",
    "wait": "runyard.native.finding",
}

__all__ = [
    "AmlCompute", "ComputeInstance", "ComputeTarget", "CondaDependencies", "CurrentRun", "DataPath", "DataReference",
    "Datastore", "DockerConfiguration", "Environment", "Estimator", "Experiment", "MetricPoint", "Metrics",
    "MpiConfiguration", "PyTorchConfiguration", "RayCompute", "RemoteCompute", "Resources", "Run", "RunConfiguration",
    "RunFailed", "RunHandle", "RunyardError", "ScriptRun", "ScriptRunConfig", "SlurmCompute", "SystemFailure",
    "TensorflowConfiguration", "UserError", "Workspace", "get", "get_run", "init", "log", "log_file", "log_image",
    "log_table", "run", "runs", "wait",
]  # fmt: skip


class PackageFolders(list):  # type: ignore[type-arg]  # list[str] needs Python 3.9
    """A package's folder; for modules that are not there, the one where a wheel's archive is unpacked."""

    def __init__(self, folders: List[str], package: str) -> None:
        super().__init__(folders)
        self._package = package

    def __iter__(self) -> Iterator[str]:
        yield from list.__iter__(self)
        from runyard.client.server_code import iter_unpacked

        yield from iter_unpacked(self._package)


__path__ = PackageFolders(__path__, __name__)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Loaded on first use: the supervisor and training code import this package for a few of its parts.
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
