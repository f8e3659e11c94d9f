"""`azureml.train.sklearn`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

SKLearn = placeholder("azureml.train.sklearn.SKLearn")

__all__ = ["SKLearn"]
