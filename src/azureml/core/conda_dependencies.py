"""`azureml.core.conda_dependencies`."""

from __future__ import annotations

from runyard.sdk.environments.conda_dependencies import CondaDependencies

__all__ = ["CondaDependencies"]
