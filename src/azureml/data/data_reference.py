"""`azureml.data.data_reference`."""

from __future__ import annotations

from runyard.sdk.data.inputs import DataReference

__all__ = ["DataReference"]
