"""`azureml.data.data_reference`."""

from __future__ import annotations

from runyard.sdk.data.inputs import DataReference
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["DataReference"]
