"""`azureml.train.dnn`."""

from __future__ import annotations

from runyard.sdk.estimators.estimator import Chainer, PyTorch, TensorFlow
from runyard.sdk.names import absent_names
from runyard.sdk.run_config.distribution import Gloo, Mpi, Nccl, ParameterServer

__getattr__ = absent_names(__name__)

__all__ = ["Chainer", "Gloo", "Mpi", "Nccl", "ParameterServer", "PyTorch", "TensorFlow"]
