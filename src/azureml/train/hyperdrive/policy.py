"""`azureml.train.hyperdrive.policy`."""

from __future__ import annotations

from runyard.sdk.sweeps.policies import (
    BanditPolicy,
    EarlyTerminationPolicy,
    MedianStoppingPolicy,
    NoTerminationPolicy,
    TruncationSelectionPolicy,
)

__all__ = [
    "BanditPolicy",
    "EarlyTerminationPolicy",
    "MedianStoppingPolicy",
    "NoTerminationPolicy",
    "TruncationSelectionPolicy",
]
