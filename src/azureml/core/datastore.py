"""`azureml.core.datastore`."""

from __future__ import annotations

from runyard.sdk.data.datastore import Datastore
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["Datastore"]
