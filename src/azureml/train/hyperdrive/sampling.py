"""`azureml.train.hyperdrive.sampling`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.sweeps.sampling import (
    BayesianParameterSampling,
    GridParameterSampling,
    HyperParameterSampling,
    RandomParameterSampling,
)

__getattr__ = absent_names(__name__)

__all__ = [
    "BayesianParameterSampling",
    "GridParameterSampling",
    "HyperParameterSampling",
    "RandomParameterSampling",
]
