"""`azureml.train.estimator`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

Estimator = placeholder("azureml.train.estimator.Estimator")

__all__ = ["Estimator"]
