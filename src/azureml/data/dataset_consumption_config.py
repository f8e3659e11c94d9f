"""`azureml.data.dataset_consumption_config`."""

from __future__ import annotations

from runyard.sdk.data.inputs import DatasetConsumptionConfig
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["DatasetConsumptionConfig"]
