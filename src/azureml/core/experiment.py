"""`azureml.core.experiment`."""

from __future__ import annotations

from runyard.sdk.workspaces.experiment import Experiment

__all__ = ["Experiment"]
