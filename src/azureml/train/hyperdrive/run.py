"""`azureml.train.hyperdrive.run`."""

from __future__ import annotations

from runyard.sdk.sweeps.config import PrimaryMetricGoal
from runyard.sdk.sweeps.run import HyperDriveRun

__all__ = ["HyperDriveRun", "PrimaryMetricGoal"]
