"""`azureml.widgets`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

RunDetails = placeholder("azureml.widgets.RunDetails")

__all__ = ["RunDetails"]
