"""`azureml.core.runconfig`: the run configuration and its sections."""

from __future__ import annotations

from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import (
    DEFAULT_CPU_IMAGE,
    DEFAULT_GPU_IMAGE,
    MPI_CPU_IMAGE,
    MPI_GPU_IMAGE,
    Environment,
)
from runyard.sdk.names import absent_names
from runyard.sdk.placeholders import placeholder
from runyard.sdk.run_config.run_configuration import (
    DataReferenceConfiguration,
    DockerConfiguration,
    HistoryConfiguration,
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
)

Data = placeholder("azureml.core.runconfig.Data")
DataLocation = placeholder("azureml.core.runconfig.DataLocation")
OutputData = placeholder("azureml.core.runconfig.OutputData")

__getattr__ = absent_names(__name__)

__all__ = [
    "DEFAULT_CPU_IMAGE",
    "DEFAULT_GPU_IMAGE",
    "MPI_CPU_IMAGE",
    "MPI_GPU_IMAGE",
    "CondaDependencies",
    "Data",
    "DataLocation",
    "DataReferenceConfiguration",
    "DockerConfiguration",
    "Environment",
    "HistoryConfiguration",
    "MpiConfiguration",
    "OutputData",
    "PyTorchConfiguration",
    "RunConfiguration",
    "TensorflowConfiguration",
]
