"""`azureml.data.dataset_type_definitions`."""

from __future__ import annotations

from runyard.sdk.data.dataset import FileEncoding, PromoteHeadersBehavior, SkipLinesBehavior
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["FileEncoding", "PromoteHeadersBehavior", "SkipLinesBehavior"]
