"""`azureml.data`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

DataType = placeholder("azureml.data.DataType")
FileDataset = placeholder("azureml.data.FileDataset")
OutputFileDatasetConfig = placeholder("azureml.data.OutputFileDatasetConfig")
TabularDataset = placeholder("azureml.data.TabularDataset")

__all__ = ["DataType", "FileDataset", "OutputFileDatasetConfig", "TabularDataset"]
