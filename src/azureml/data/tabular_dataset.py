"""`azureml.data.tabular_dataset`."""

from __future__ import annotations

from runyard.sdk.data.tabular_dataset import TabularDataset

__all__ = ["TabularDataset"]
