"""`azureml.core.keyvault`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.workspaces.keyvault import Keyvault

__getattr__ = absent_names(__name__)

__all__ = ["Keyvault"]
