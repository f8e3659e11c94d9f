"""`azureml.train.hyperdrive.runconfig`."""

from __future__ import annotations

from runyard.sdk.sweeps.config import HyperDriveConfig, HyperDriveRunConfig, PrimaryMetricGoal

__all__ = ["HyperDriveConfig", "HyperDriveRunConfig", "PrimaryMetricGoal"]
