"""`azureml.train.hyperdrive.run`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.sweeps.config import PrimaryMetricGoal
from runyard.sdk.sweeps.run import HyperDriveRun

__getattr__ = absent_names(__name__)

__all__ = ["HyperDriveRun", "PrimaryMetricGoal"]
