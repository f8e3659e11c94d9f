"""`azureml.train.hyperdrive.run`."""

from __future__ import annotations

from runyard.sdk.hyperdrive_config import PrimaryMetricGoal
from runyard.sdk.hyperdrive_run import HyperDriveRun

__all__ = ["HyperDriveRun", "PrimaryMetricGoal"]
