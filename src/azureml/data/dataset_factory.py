"""`azureml.data.dataset_factory`."""

from __future__ import annotations

from runyard.sdk.data.conditions import DataType
from runyard.sdk.data.dataset import FileDatasetFactory, TabularDatasetFactory
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["DataType", "FileDatasetFactory", "TabularDatasetFactory"]
