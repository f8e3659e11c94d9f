"""`azureml.data.dataset_factory`."""

from __future__ import annotations

from runyard.sdk.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory
from runyard.sdk.data.tabular_dataset import DataType

__all__ = ["DataType", "FileDatasetFactory", "TabularDatasetFactory"]
