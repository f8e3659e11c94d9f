"""`azureml.data.dataset_factory`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

DataType = placeholder("azureml.data.dataset_factory.DataType")
FileDatasetFactory = placeholder("azureml.data.dataset_factory.FileDatasetFactory")
TabularDatasetFactory = placeholder("azureml.data.dataset_factory.TabularDatasetFactory")

__all__ = ["DataType", "FileDatasetFactory", "TabularDatasetFactory"]
