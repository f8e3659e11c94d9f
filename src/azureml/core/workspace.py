"""`azureml.core.workspace`."""

from __future__ import annotations

from runyard.sdk.workspaces.workspace import Workspace

__all__ = ["Workspace"]
