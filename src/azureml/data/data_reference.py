"""`azureml.data.data_reference`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

DataReference = placeholder("azureml.data.data_reference.DataReference")

__all__ = ["DataReference"]
