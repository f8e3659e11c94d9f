"""`azureml.tensorboard.export`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

export_to_tensorboard = placeholder("azureml.tensorboard.export.export_to_tensorboard")

__all__ = ["export_to_tensorboard"]
