"""`azureml.data.file_dataset`."""

from __future__ import annotations

from runyard.sdk.data.kinds import FileDataset

__all__ = ["FileDataset"]
