"""`azureml.widgets`."""

from __future__ import annotations

from runyard.sdk.runs.notebook import RunDetails

__all__ = ["RunDetails"]
