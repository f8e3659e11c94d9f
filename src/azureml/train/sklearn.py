"""`azureml.train.sklearn`."""

from __future__ import annotations

from runyard.sdk.estimators.estimator import SKLearn

__all__ = ["SKLearn"]
