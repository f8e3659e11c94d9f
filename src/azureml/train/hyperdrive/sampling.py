"""`azureml.train.hyperdrive.sampling`."""

from __future__ import annotations

from runyard.sdk.sweeps.sampling import (
    BayesianParameterSampling,
    GridParameterSampling,
    HyperParameterSampling,
    RandomParameterSampling,
)

__all__ = [
    "BayesianParameterSampling",
    "GridParameterSampling",
    "HyperParameterSampling",
    "RandomParameterSampling",
]
