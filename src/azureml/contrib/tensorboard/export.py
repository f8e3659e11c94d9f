"""The 2018 place of `azureml.tensorboard.export`."""

from __future__ import annotations

from azureml.tensorboard.export import export_to_tensorboard

__all__ = ["export_to_tensorboard"]
