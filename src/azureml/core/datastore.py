"""`azureml.core.datastore`."""

from __future__ import annotations

from runyard.sdk.datastore import Datastore

__all__ = ["Datastore"]
