"""`azureml.train.hyperdrive.run`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

HyperDriveRun = placeholder("azureml.train.hyperdrive.run.HyperDriveRun")
PrimaryMetricGoal = placeholder("azureml.train.hyperdrive.run.PrimaryMetricGoal")

__all__ = ["HyperDriveRun", "PrimaryMetricGoal"]
