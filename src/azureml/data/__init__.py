"""`azureml.data`."""

from __future__ import annotations

from runyard.sdk.dataset_output import OutputFileDatasetConfig
from runyard.sdk.file_dataset import FileDataset
from runyard.sdk.tabular_dataset import DataType, TabularDataset

__all__ = ["DataType", "FileDataset", "OutputFileDatasetConfig", "TabularDataset"]
