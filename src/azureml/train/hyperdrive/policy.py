"""`azureml.train.hyperdrive.policy`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

BanditPolicy = placeholder("azureml.train.hyperdrive.policy.BanditPolicy")
EarlyTerminationPolicy = placeholder("azureml.train.hyperdrive.policy.EarlyTerminationPolicy")
MedianStoppingPolicy = placeholder("azureml.train.hyperdrive.policy.MedianStoppingPolicy")
NoTerminationPolicy = placeholder("azureml.train.hyperdrive.policy.NoTerminationPolicy")
TruncationSelectionPolicy = placeholder("azureml.train.hyperdrive.policy.TruncationSelectionPolicy")

__all__ = [
    "BanditPolicy",
    "EarlyTerminationPolicy",
    "MedianStoppingPolicy",
    "NoTerminationPolicy",
    "TruncationSelectionPolicy",
]
