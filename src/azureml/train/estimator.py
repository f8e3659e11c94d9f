"""`azureml.train.estimator`."""

from __future__ import annotations

from runyard.sdk.estimators.estimator import Estimator
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["Estimator"]
