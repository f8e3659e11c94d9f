"""The distribution of a run: plan it from a `RunConfiguration`, and the classes that describe it for estimators.

`plan_distribution` makes the `DistributionSpec` and refuses impossible numbers. `Mpi`, `ParameterServer`, `Gloo` and
`Nccl` are the values of an estimator's `distributed_training`.
"""

from __future__ import annotations

from typing import Any, Union

from runyard.core.errors import SubmitRejected
from runyard.core.specs import DistributionSpec
from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.run_config.run_configuration import MpiConfiguration, RunConfiguration, TensorflowConfiguration

_ONE_MACHINE = "Leave out distributed_job_config and node_count: one process runs on this machine."


def plan_distribution(config: RunConfiguration) -> DistributionSpec:
    """Return the job's shape.

    Raises:
        SubmitRejected: counts that no job can have.
    """
    nodes = _count("node_count", config.node_count)
    communicator = str(config.communicator).lower()
    if communicator in ("intelmpi", "openmpi", "mpi"):
        per_node = _count("MpiConfiguration.process_count_per_node", config.mpi.process_count_per_node)
        return DistributionSpec("mpi", nodes, per_node)
    if communicator == "parameterserver":
        return _plan_tensorflow(config, nodes)
    if communicator in ("nccl", "gloo"):
        return _plan_pytorch(config, nodes, communicator)
    if communicator != "none":
        raise SubmitRejected(
            f"The communicator `{config.communicator}` is not known.",
            hint="Use distributed_job_config with MpiConfiguration, PyTorchConfiguration or TensorflowConfiguration.",
        )
    if nodes > 1:
        raise SubmitRejected(
            f"The run asks for {nodes} nodes without saying how its processes find each other.",
            why="Without a distributed configuration a run is one process.",
            hint=f"Give ScriptRunConfig distributed_job_config=PyTorchConfiguration(node_count={nodes}), "
            f"MpiConfiguration(node_count={nodes}) or TensorflowConfiguration(worker_count={nodes}).",
        )
    return DistributionSpec()


def _plan_tensorflow(config: RunConfiguration, nodes: int) -> DistributionSpec:
    workers = _count("TensorflowConfiguration.worker_count", config.tensorflow.worker_count)
    servers = _count(
        "TensorflowConfiguration.parameter_server_count", config.tensorflow.parameter_server_count, least=0
    )
    if nodes > workers + servers:
        raise SubmitRejected(
            f"{workers + servers} tasks cannot fill {nodes} nodes.",
            why=f"The job has {workers} workers and {servers} parameter servers.",
            hint=f"Use node_count={workers}, or more workers.",
        )
    per_node = -(-(workers + servers) // nodes)
    return DistributionSpec("tensorflow", nodes, per_node, {"worker_count": workers, "parameter_server_count": servers})


def _plan_pytorch(config: RunConfiguration, nodes: int, backend: str) -> DistributionSpec:
    """Return one process per node for a command, or where no count was given: it starts the others itself."""
    given = config.pytorch.process_count
    count = nodes if given is None else _count("PyTorchConfiguration.process_count", given)
    if count % nodes:
        raise SubmitRejected(
            f"{count} processes cannot be spread evenly over {nodes} nodes.",
            why="PyTorchConfiguration.process_count is the total over all nodes.",
            hint=f"Use process_count={(count // nodes + 1) * nodes}, or another node_count.",
        )
    per_node = given is None or bool(config.command)
    options = {"backend": backend, "world_size": count, "per_node": per_node}
    return DistributionSpec("pytorch", nodes, 1 if per_node else count // nodes, options)


def _count(name: str, value: Any, *, least: int = 1) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise SubmitRejected(f"{name} is {value!r}.", why=f"It must be a whole number, {least} or more.", hint=_ONE_MACHINE)


@raises_azure_errors
class Mpi(SealedConfig):
    """`process_count_per_node` processes on each node, started by Open MPI; TensorFlow and PyTorch get Horovod."""

    def __init__(self, process_count_per_node: int = 1) -> None:
        self.process_count_per_node = process_count_per_node
        self._seal()


@raises_azure_errors
class ParameterServer(SealedConfig):
    """TensorFlow workers and parameter servers, which `TF_CONFIG` tells about each other."""

    def __init__(self, worker_count: int = 1, parameter_server_count: int = 1) -> None:
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count
        self._seal()


@raises_azure_errors
class Gloo(SealedConfig):
    """PyTorch's processes, with its back end gloo."""

    def __init__(self) -> None:
        self._seal()


@raises_azure_errors
class Nccl(SealedConfig):
    """PyTorch's processes, with its back end nccl."""

    def __init__(self) -> None:
        self._seal()


Training = Union[Mpi, ParameterServer, Gloo, Nccl, MpiConfiguration, TensorflowConfiguration]
