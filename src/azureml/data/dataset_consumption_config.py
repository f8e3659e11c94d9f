"""`azureml.data.dataset_consumption_config`."""

from __future__ import annotations

from runyard.sdk.dataset_input import DatasetConsumptionConfig

__all__ = ["DatasetConsumptionConfig"]
