"""`azureml.core.compute`: pools, instances and machines over SSH; others are refused by name."""

from __future__ import annotations

from runyard.sdk.compute.aks import AksCompute
from runyard.sdk.compute.attached import RemoteCompute
from runyard.sdk.compute.pools import AmlCompute, BatchAiCompute, ComputeInstance, DsvmCompute
from runyard.sdk.compute.target import ComputeTarget
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = [
    "AksCompute",
    "AmlCompute",
    "BatchAiCompute",
    "ComputeInstance",
    "ComputeTarget",
    "DsvmCompute",
    "RemoteCompute",
]
