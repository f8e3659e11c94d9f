"""How an estimator's processes work together: `Mpi`, `ParameterServer`, `Gloo`, `Nccl`."""

from __future__ import annotations

from typing import Union

from runyard.sdk.config.objects import Guarded
from runyard.sdk.run_config.run_configuration import MpiConfiguration, TensorflowConfiguration


class Mpi(Guarded):
    """`process_count_per_node` processes on each node, started by Open MPI; TensorFlow and PyTorch get Horovod."""

    def __init__(self, process_count_per_node: int = 1) -> None:
        self.process_count_per_node = process_count_per_node
        self._seal()


class ParameterServer(Guarded):
    """TensorFlow workers and parameter servers, which `TF_CONFIG` tells about each other."""

    def __init__(self, worker_count: int = 1, parameter_server_count: int = 1) -> None:
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count
        self._seal()


class Gloo(Guarded):
    """PyTorch's processes, with its back end gloo."""

    def __init__(self) -> None:
        self._seal()


class Nccl(Guarded):
    """PyTorch's processes, with its back end nccl."""

    def __init__(self) -> None:
        self._seal()


Training = Union[Mpi, ParameterServer, Gloo, Nccl, MpiConfiguration, TensorflowConfiguration]
