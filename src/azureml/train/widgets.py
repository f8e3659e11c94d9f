"""`azureml.train.widgets`, the 2018 place of `azureml.widgets`."""

from __future__ import annotations

from azureml.widgets import RunDetails

__all__ = ["RunDetails"]
