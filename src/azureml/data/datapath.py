"""`azureml.data.datapath`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

DataPath = placeholder("azureml.data.datapath.DataPath")
DataPathComputeBinding = placeholder("azureml.data.datapath.DataPathComputeBinding")

__all__ = ["DataPath", "DataPathComputeBinding"]
