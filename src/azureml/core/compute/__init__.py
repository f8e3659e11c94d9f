"""`azureml.core.compute`: not there yet; runs go to `local`."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

AksCompute = placeholder("azureml.core.compute.AksCompute")
AmlCompute = placeholder("azureml.core.compute.AmlCompute")
BatchAiCompute = placeholder("azureml.core.compute.BatchAiCompute")
ComputeInstance = placeholder("azureml.core.compute.ComputeInstance")
ComputeTarget = placeholder("azureml.core.compute.ComputeTarget")
DsvmCompute = placeholder("azureml.core.compute.DsvmCompute")
RemoteCompute = placeholder("azureml.core.compute.RemoteCompute")

__all__ = [
    "AksCompute",
    "AmlCompute",
    "BatchAiCompute",
    "ComputeInstance",
    "ComputeTarget",
    "DsvmCompute",
    "RemoteCompute",
]
