"""`azureml.data.output_dataset_config`."""

from __future__ import annotations

from runyard.sdk.data.inputs import OutputFileDatasetConfig

__all__ = ["OutputFileDatasetConfig"]
