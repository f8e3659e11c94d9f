"""`azureml.core.datastore`."""

from __future__ import annotations

from runyard.sdk.data.datastore import Datastore

__all__ = ["Datastore"]
