"""`azureml.widgets`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.runs.notebook import RunDetails

__getattr__ = absent_names(__name__)

__all__ = ["RunDetails"]
