"""`azureml.train.hyperdrive.parameter_expressions`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.sweeps.sampling import (
    choice,
    lognormal,
    loguniform,
    normal,
    qlognormal,
    qloguniform,
    qnormal,
    quniform,
    randint,
    uniform,
)

__getattr__ = absent_names(__name__)

__all__ = [
    "choice",
    "lognormal",
    "loguniform",
    "normal",
    "qlognormal",
    "qloguniform",
    "qnormal",
    "quniform",
    "randint",
    "uniform",
]
