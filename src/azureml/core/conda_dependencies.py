"""`azureml.core.conda_dependencies`."""

from __future__ import annotations

from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["CondaDependencies"]
