"""`azureml.data.dataset_factory`."""

from __future__ import annotations

from runyard.sdk.data.dataset import FileDatasetFactory, TabularDatasetFactory
from runyard.sdk.data.kinds import DataType

__all__ = ["DataType", "FileDatasetFactory", "TabularDatasetFactory"]
