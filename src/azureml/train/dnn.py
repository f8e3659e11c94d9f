"""`azureml.train.dnn`."""

from __future__ import annotations

from runyard.sdk.distributed_training import Gloo, Mpi, Nccl, ParameterServer
from runyard.sdk.framework_estimators import Chainer, PyTorch, TensorFlow

__all__ = ["Chainer", "Gloo", "Mpi", "Nccl", "ParameterServer", "PyTorch", "TensorFlow"]
