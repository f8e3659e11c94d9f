"""`azureml.train.dnn`."""

from __future__ import annotations

from runyard.sdk.estimators.framework_estimators import Chainer, PyTorch, TensorFlow
from runyard.sdk.run_config.distributed_training import Gloo, Mpi, Nccl, ParameterServer

__all__ = ["Chainer", "Gloo", "Mpi", "Nccl", "ParameterServer", "PyTorch", "TensorFlow"]
