"""`azureml.core.compute`: pools, instances and machines over SSH; others are not there yet."""

from __future__ import annotations

from runyard.sdk.compute.attached import RemoteCompute
from runyard.sdk.compute.pools import AmlCompute, BatchAiCompute, ComputeInstance
from runyard.sdk.compute.target import ComputeTarget
from runyard.sdk.errors import placeholder

AksCompute = placeholder("azureml.core.compute.AksCompute")
DsvmCompute = placeholder("azureml.core.compute.DsvmCompute")

__all__ = [
    "AksCompute",
    "AmlCompute",
    "BatchAiCompute",
    "ComputeInstance",
    "ComputeTarget",
    "DsvmCompute",
    "RemoteCompute",
]
