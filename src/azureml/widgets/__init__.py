"""`azureml.widgets`."""

from __future__ import annotations

from runyard.sdk.runs.run_details_widget import RunDetails

__all__ = ["RunDetails"]
