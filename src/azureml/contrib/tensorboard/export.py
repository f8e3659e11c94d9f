"""The 2018 place of `azureml.tensorboard.export`."""

from __future__ import annotations

from azureml.tensorboard.export import export_to_tensorboard
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["export_to_tensorboard"]
