"""`azureml.data.dataset_factory`."""

from __future__ import annotations

from runyard.sdk.data.conditions import DataType
from runyard.sdk.data.dataset import FileDatasetFactory, TabularDatasetFactory

__all__ = ["DataType", "FileDatasetFactory", "TabularDatasetFactory"]
