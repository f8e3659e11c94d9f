"""`azureml.tensorboard`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

Tensorboard = placeholder("azureml.tensorboard.Tensorboard")

__all__ = ["Tensorboard"]
