"""How many processes a RunConfiguration asks for → DistributionSpec; impossible numbers are found here."""

from __future__ import annotations

from typing import Any

from runyard.core.errors import SubmitRejected
from runyard.core.specs import DistributionSpec
from runyard.sdk.not_yet import refuse
from runyard.sdk.run_configuration import RunConfiguration

_ONE_MACHINE = "Leave out distributed_job_config and node_count: one process runs on this machine."


def plan_distribution(config: RunConfiguration) -> DistributionSpec:
    """Return the job's shape.

    Raises:
        SubmitRejected: counts that no job can have.
        NotYetSupported: more than one process.
    """
    nodes = _count("node_count", config.node_count)
    communicator = str(config.communicator).lower()
    if communicator in ("intelmpi", "openmpi", "mpi"):
        _count("MpiConfiguration.process_count_per_node", config.mpi.process_count_per_node)
        refuse("Distributed training with MPI", hint=_ONE_MACHINE)
    if communicator == "parameterserver":
        _count("TensorflowConfiguration.worker_count", config.tensorflow.worker_count)
        _count("TensorflowConfiguration.parameter_server_count", config.tensorflow.parameter_server_count, least=0)
        refuse("Distributed training with parameter servers", hint=_ONE_MACHINE)
    if communicator in ("nccl", "gloo"):
        _check_pytorch(config, nodes)
        refuse("Distributed training with PyTorch", hint=_ONE_MACHINE)
    if communicator != "none":
        raise SubmitRejected(
            f"The communicator `{config.communicator}` is not known.",
            hint="Use distributed_job_config with MpiConfiguration, PyTorchConfiguration or TensorflowConfiguration.",
        )
    if nodes > 1:
        refuse(f"A run on {nodes} nodes", hint=_ONE_MACHINE)
    return DistributionSpec()


def _check_pytorch(config: RunConfiguration, nodes: int) -> None:
    processes = config.pytorch.process_count
    if processes is None:
        return
    count = _count("PyTorchConfiguration.process_count", processes)
    if count % nodes:
        raise SubmitRejected(
            f"{count} processes cannot be spread evenly over {nodes} nodes.",
            why="PyTorchConfiguration.process_count is the total over all nodes.",
            hint=f"Use process_count={(count // nodes + 1) * nodes}, or another node_count.",
        )


def _count(name: str, value: Any, *, least: int = 1) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise SubmitRejected(f"{name} is {value!r}.", why=f"It must be a whole number, {least} or more.", hint=_ONE_MACHINE)
