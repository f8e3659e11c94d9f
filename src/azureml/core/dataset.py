"""`azureml.core.dataset`."""

from __future__ import annotations

from runyard.sdk.data.dataset import Dataset

__all__ = ["Dataset"]
