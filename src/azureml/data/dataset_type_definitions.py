"""`azureml.data.dataset_type_definitions`."""

from __future__ import annotations

from runyard.sdk.data.dataset import PromoteHeadersBehavior

__all__ = ["PromoteHeadersBehavior"]
