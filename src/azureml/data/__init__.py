"""`azureml.data`."""

from __future__ import annotations

from runyard.sdk.data.conditions import DataType
from runyard.sdk.data.kinds import FileDataset, TabularDataset
from runyard.sdk.data.outputs import OutputFileDatasetConfig
from runyard.sdk.names import absent_names

__version__ = "1.61.0"
__getattr__ = absent_names(__name__)

__all__ = ["DataType", "FileDataset", "OutputFileDatasetConfig", "TabularDataset"]
