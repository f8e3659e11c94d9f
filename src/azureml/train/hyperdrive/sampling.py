"""`azureml.train.hyperdrive.sampling`."""

from __future__ import annotations

from runyard.sdk.hyperdrive_sampling import (
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
