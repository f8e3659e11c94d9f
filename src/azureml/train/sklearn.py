"""`azureml.train.sklearn`."""

from __future__ import annotations

from runyard.sdk.estimators.estimator import SKLearn
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["SKLearn"]
