"""`azureml.opendatasets`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

Diabetes = placeholder("azureml.opendatasets.Diabetes")
MNIST = placeholder("azureml.opendatasets.MNIST")

__all__ = ["MNIST", "Diabetes"]
