"""`azureml.data.dataset_consumption_config`."""

from __future__ import annotations

from runyard.sdk.data.inputs import DatasetConsumptionConfig

__all__ = ["DatasetConsumptionConfig"]
