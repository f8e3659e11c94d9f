"""`azureml.data.file_dataset`."""

from __future__ import annotations

from runyard.sdk.file_dataset import FileDataset

__all__ = ["FileDataset"]
