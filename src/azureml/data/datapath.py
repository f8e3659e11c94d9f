"""`azureml.data.datapath`."""

from __future__ import annotations

from runyard.sdk.data.inputs import DataPath, DataPathComputeBinding
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["DataPath", "DataPathComputeBinding"]
