"""`azureml.data`."""

from __future__ import annotations

from runyard.sdk.data.conditions import DataType
from runyard.sdk.data.inputs import OutputFileDatasetConfig
from runyard.sdk.data.kinds import FileDataset, TabularDataset

__all__ = ["DataType", "FileDataset", "OutputFileDatasetConfig", "TabularDataset"]
