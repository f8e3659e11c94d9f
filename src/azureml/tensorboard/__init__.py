"""`azureml.tensorboard`."""

from __future__ import annotations

from runyard.sdk.tensorboard import Tensorboard

__all__ = ["Tensorboard"]
