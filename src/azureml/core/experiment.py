"""`azureml.core.experiment`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.workspaces.experiment import Experiment

__getattr__ = absent_names(__name__)

__all__ = ["Experiment"]
