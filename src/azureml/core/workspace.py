"""`azureml.core.workspace`."""

from __future__ import annotations

from runyard.sdk.workspace import Workspace

__all__ = ["Workspace"]
