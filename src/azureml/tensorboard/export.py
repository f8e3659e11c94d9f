"""`azureml.tensorboard.export`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.tensorboard import export_to_tensorboard

__getattr__ = absent_names(__name__)

__all__ = ["export_to_tensorboard"]
