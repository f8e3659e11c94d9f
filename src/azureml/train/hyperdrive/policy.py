"""`azureml.train.hyperdrive.policy`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.sweeps.policies import (
    BanditPolicy,
    EarlyTerminationPolicy,
    MedianStoppingPolicy,
    NoTerminationPolicy,
    TruncationSelectionPolicy,
)

__getattr__ = absent_names(__name__)

__all__ = [
    "BanditPolicy",
    "EarlyTerminationPolicy",
    "MedianStoppingPolicy",
    "NoTerminationPolicy",
    "TruncationSelectionPolicy",
]
