"""`azureml.core.dataset`."""

from __future__ import annotations

from runyard.sdk.dataset import Dataset

__all__ = ["Dataset"]
