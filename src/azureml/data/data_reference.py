"""`azureml.data.data_reference`."""

from __future__ import annotations

from runyard.sdk.data.data_reference import DataReference

__all__ = ["DataReference"]
