"""`azureml.train.hyperdrive.policy`."""

from __future__ import annotations

from runyard.sdk.hyperdrive_policy import (
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
