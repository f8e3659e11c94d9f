"""`azureml.train.widgets`, the 2018 place of `azureml.widgets`."""

from __future__ import annotations

from azureml.widgets import RunDetails
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["RunDetails"]
