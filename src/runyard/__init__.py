"""Runyard: submit training runs, track them, tune them and scale them on machines you own."""

from __future__ import annotations

__version__ = "0.2.0"

TYPE_CHECKING = False  # checkers know the name; importing typing would cost every rank's start 10 ms
if TYPE_CHECKING:
    from typing import Any, List

    from runyard.core.errors import RunyardError, SystemFailure, UserError
    from runyard.sdk.aml_compute import AmlCompute
    from runyard.sdk.attached_compute import RayCompute, RemoteCompute, SlurmCompute
    from runyard.sdk.compute import ComputeTarget
    from runyard.sdk.compute_instance import ComputeInstance
    from runyard.sdk.conda_dependencies import CondaDependencies
    from runyard.sdk.data_reference import DataReference
    from runyard.sdk.datapath import DataPath
    from runyard.sdk.datastore import Datastore
    from runyard.sdk.environment import Environment
    from runyard.sdk.estimator import Estimator
    from runyard.sdk.experiment import Experiment
    from runyard.sdk.resources import Resources
    from runyard.sdk.run import Run, ScriptRun, get_run
    from runyard.sdk.run_configuration import (
        DockerConfiguration,
        MpiConfiguration,
        PyTorchConfiguration,
        RunConfiguration,
        TensorflowConfiguration,
    )
    from runyard.sdk.script_run_config import ScriptRunConfig
    from runyard.sdk.workspace import Workspace

_HOMES = {
    "AmlCompute": "runyard.sdk.aml_compute",
    "ComputeInstance": "runyard.sdk.compute_instance",
    "ComputeTarget": "runyard.sdk.compute",
    "CondaDependencies": "runyard.sdk.conda_dependencies",
    "DataPath": "runyard.sdk.datapath",
    "DataReference": "runyard.sdk.data_reference",
    "Datastore": "runyard.sdk.datastore",
    "DockerConfiguration": "runyard.sdk.run_configuration",
    "Environment": "runyard.sdk.environment",
    "Estimator": "runyard.sdk.estimator",
    "Experiment": "runyard.sdk.experiment",
    "MpiConfiguration": "runyard.sdk.run_configuration",
    "PyTorchConfiguration": "runyard.sdk.run_configuration",
    "RayCompute": "runyard.sdk.attached_compute",
    "RemoteCompute": "runyard.sdk.attached_compute",
    "Resources": "runyard.sdk.resources",
    "Run": "runyard.sdk.run",
    "RunConfiguration": "runyard.sdk.run_configuration",
    "RunyardError": "runyard.core.errors",
    "ScriptRun": "runyard.sdk.run",
    "ScriptRunConfig": "runyard.sdk.script_run_config",
    "SlurmCompute": "runyard.sdk.attached_compute",
    "SystemFailure": "runyard.core.errors",
    "TensorflowConfiguration": "runyard.sdk.run_configuration",
    "UserError": "runyard.core.errors",
    "Workspace": "runyard.sdk.workspace",
    "get_run": "runyard.sdk.run",
}

__all__ = [
    "AmlCompute",
    "ComputeInstance",
    "ComputeTarget",
    "CondaDependencies",
    "DataPath",
    "DataReference",
    "Datastore",
    "DockerConfiguration",
    "Environment",
    "Estimator",
    "Experiment",
    "MpiConfiguration",
    "PyTorchConfiguration",
    "RayCompute",
    "RemoteCompute",
    "Resources",
    "Run",
    "RunConfiguration",
    "RunyardError",
    "ScriptRun",
    "ScriptRunConfig",
    "SlurmCompute",
    "SystemFailure",
    "TensorflowConfiguration",
    "UserError",
    "Workspace",
    "get_run",
]


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
