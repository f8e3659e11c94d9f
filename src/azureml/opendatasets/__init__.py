"""`azureml.opendatasets`."""

from __future__ import annotations

from runyard.sdk.data.opendatasets import MNIST, Diabetes
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["MNIST", "Diabetes"]
