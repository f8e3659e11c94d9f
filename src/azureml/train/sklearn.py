"""`azureml.train.sklearn`."""

from __future__ import annotations

from runyard.sdk.estimators.framework_estimators import SKLearn

__all__ = ["SKLearn"]
