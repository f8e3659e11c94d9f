"""`azureml.data.file_dataset`."""

from __future__ import annotations

from runyard.sdk.data.kinds import FileDataset
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["FileDataset"]
