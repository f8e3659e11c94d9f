"""`azureml.core.dataset`."""

from __future__ import annotations

from runyard.sdk.data.dataset import Dataset
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["Dataset"]
