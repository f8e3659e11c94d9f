"""`azureml.data.tabular_dataset`."""

from __future__ import annotations

from runyard.sdk.data.kinds import TabularDataset

__all__ = ["TabularDataset"]
