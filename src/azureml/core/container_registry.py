"""`azureml.core.container_registry`."""

from __future__ import annotations

from runyard.sdk.environments.environment import ContainerRegistry

__all__ = ["ContainerRegistry"]
