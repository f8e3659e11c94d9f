"""`azureml.tensorboard.export`."""

from __future__ import annotations

from runyard.sdk.tensorboard import export_to_tensorboard

__all__ = ["export_to_tensorboard"]
