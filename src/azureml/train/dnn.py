"""`azureml.train.dnn`."""

from __future__ import annotations

from runyard.sdk.estimators.estimator import Chainer, PyTorch, TensorFlow
from runyard.sdk.run_config.distribution import Gloo, Mpi, Nccl, ParameterServer

__all__ = ["Chainer", "Gloo", "Mpi", "Nccl", "ParameterServer", "PyTorch", "TensorFlow"]
