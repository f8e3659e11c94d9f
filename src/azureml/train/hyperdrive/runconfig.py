"""`azureml.train.hyperdrive.runconfig`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

HyperDriveConfig = placeholder("azureml.train.hyperdrive.runconfig.HyperDriveConfig")
HyperDriveRunConfig = placeholder("azureml.train.hyperdrive.runconfig.HyperDriveRunConfig")

__all__ = ["HyperDriveConfig", "HyperDriveRunConfig"]
