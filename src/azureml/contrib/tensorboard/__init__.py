"""The 2018 place of `azureml.tensorboard`."""

from __future__ import annotations

from azureml.tensorboard import Tensorboard
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["Tensorboard"]
