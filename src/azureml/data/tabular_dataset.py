"""`azureml.data.tabular_dataset`."""

from __future__ import annotations

from runyard.sdk.data.kinds import TabularDataset
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["TabularDataset"]
