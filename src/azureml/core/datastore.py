"""`azureml.core.datastore`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

Datastore = placeholder("azureml.core.datastore.Datastore")

__all__ = ["Datastore"]
