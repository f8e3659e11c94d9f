"""`azureml.core.keyvault`."""

from __future__ import annotations

from runyard.sdk.workspaces.keyvault import Keyvault

__all__ = ["Keyvault"]
