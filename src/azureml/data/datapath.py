"""`azureml.data.datapath`."""

from __future__ import annotations

from runyard.sdk.data.inputs import DataPath, DataPathComputeBinding

__all__ = ["DataPath", "DataPathComputeBinding"]
