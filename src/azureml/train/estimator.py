"""`azureml.train.estimator`."""

from __future__ import annotations

from runyard.sdk.estimator import Estimator

__all__ = ["Estimator"]
