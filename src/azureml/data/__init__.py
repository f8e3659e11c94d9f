"""`azureml.data`."""

from __future__ import annotations

from runyard.sdk.data.dataset_output import OutputFileDatasetConfig
from runyard.sdk.data.kinds import FileDataset
from runyard.sdk.data.tabular_dataset import DataType, TabularDataset

__all__ = ["DataType", "FileDataset", "OutputFileDatasetConfig", "TabularDataset"]
