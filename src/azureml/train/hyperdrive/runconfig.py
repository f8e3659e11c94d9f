"""`azureml.train.hyperdrive.runconfig`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.sweeps.config import HyperDriveConfig, HyperDriveRunConfig, PrimaryMetricGoal

__getattr__ = absent_names(__name__)

__all__ = ["HyperDriveConfig", "HyperDriveRunConfig", "PrimaryMetricGoal"]
