"""`azureml.core.compute_target`: where notebooks import the exception from."""

from __future__ import annotations

from azureml.core.compute import ComputeTarget
from runyard.sdk.exceptions import ComputeTargetException
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["ComputeTarget", "ComputeTargetException"]
