"""`azureml.data.datapath`."""

from __future__ import annotations

from runyard.sdk.datapath import DataPath, DataPathComputeBinding

__all__ = ["DataPath", "DataPathComputeBinding"]
