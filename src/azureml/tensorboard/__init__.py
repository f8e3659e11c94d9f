"""`azureml.tensorboard`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.tensorboard import Tensorboard

__getattr__ = absent_names(__name__)

__all__ = ["Tensorboard"]
