"""`azureml.train.estimator`."""

from __future__ import annotations

from runyard.sdk.estimators.estimator import Estimator

__all__ = ["Estimator"]
