"""`azureml.train.hyperdrive.parameter_expressions`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

choice = placeholder("azureml.train.hyperdrive.parameter_expressions.choice")
lognormal = placeholder("azureml.train.hyperdrive.parameter_expressions.lognormal")
loguniform = placeholder("azureml.train.hyperdrive.parameter_expressions.loguniform")
normal = placeholder("azureml.train.hyperdrive.parameter_expressions.normal")
qlognormal = placeholder("azureml.train.hyperdrive.parameter_expressions.qlognormal")
qloguniform = placeholder("azureml.train.hyperdrive.parameter_expressions.qloguniform")
qnormal = placeholder("azureml.train.hyperdrive.parameter_expressions.qnormal")
quniform = placeholder("azureml.train.hyperdrive.parameter_expressions.quniform")
randint = placeholder("azureml.train.hyperdrive.parameter_expressions.randint")
uniform = placeholder("azureml.train.hyperdrive.parameter_expressions.uniform")

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
