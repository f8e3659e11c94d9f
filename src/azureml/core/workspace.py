"""`azureml.core.workspace`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.workspaces.workspace import Workspace

__getattr__ = absent_names(__name__)

__all__ = ["Workspace"]
