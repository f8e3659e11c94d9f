"""`azureml.data`."""

from __future__ import annotations

from runyard.sdk.data.inputs import OutputFileDatasetConfig
from runyard.sdk.data.kinds import DataType, FileDataset, TabularDataset

__all__ = ["DataType", "FileDataset", "OutputFileDatasetConfig", "TabularDataset"]
