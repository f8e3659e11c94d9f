"""`azureml.opendatasets`."""

from __future__ import annotations

from runyard.sdk.data.opendatasets import MNIST, Diabetes

__all__ = ["MNIST", "Diabetes"]
