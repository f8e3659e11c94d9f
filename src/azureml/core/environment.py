"""`azureml.core.environment`."""

from __future__ import annotations

from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import (
    DEFAULT_CPU_IMAGE,
    DEFAULT_GPU_IMAGE,
    DockerBuildContext,
    DockerSection,
    Environment,
    PythonSection,
)
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = [
    "DEFAULT_CPU_IMAGE",
    "DEFAULT_GPU_IMAGE",
    "CondaDependencies",
    "DockerBuildContext",
    "DockerSection",
    "Environment",
    "PythonSection",
]
