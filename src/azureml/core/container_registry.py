"""`azureml.core.container_registry`."""

from __future__ import annotations

from runyard.sdk.environments.environment import ContainerRegistry
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["ContainerRegistry"]
