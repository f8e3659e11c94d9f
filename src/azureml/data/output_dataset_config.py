"""`azureml.data.output_dataset_config`."""

from __future__ import annotations

from runyard.sdk.data.outputs import OutputDatasetConfig, OutputFileDatasetConfig, OutputTabularDatasetConfig
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["OutputDatasetConfig", "OutputFileDatasetConfig", "OutputTabularDatasetConfig"]
