"""`azureml.core.compute_target`: where notebooks import the exception from."""

from __future__ import annotations

from azureml.core.compute import ComputeTarget
from runyard.sdk.exceptions import ComputeTargetException

__all__ = ["ComputeTarget", "ComputeTargetException"]
