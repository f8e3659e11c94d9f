"""`azureml.train.dnn`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

Chainer = placeholder("azureml.train.dnn.Chainer")
Gloo = placeholder("azureml.train.dnn.Gloo")
Mpi = placeholder("azureml.train.dnn.Mpi")
Nccl = placeholder("azureml.train.dnn.Nccl")
ParameterServer = placeholder("azureml.train.dnn.ParameterServer")
PyTorch = placeholder("azureml.train.dnn.PyTorch")
TensorFlow = placeholder("azureml.train.dnn.TensorFlow")

__all__ = ["Chainer", "Gloo", "Mpi", "Nccl", "ParameterServer", "PyTorch", "TensorFlow"]
