"""The 2018 place of `azureml.tensorboard`."""

from __future__ import annotations

from azureml.tensorboard import Tensorboard

__all__ = ["Tensorboard"]
