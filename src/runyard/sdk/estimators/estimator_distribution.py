"""An estimator's words about its processes → the run configuration that the plan reads."""

from __future__ import annotations

from typing import Any, Mapping

from runyard.sdk.run_config.distributed_training import Gloo, Mpi, Nccl, ParameterServer
from runyard.sdk.run_config.run_configuration import (
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
)

_BY_BACKEND = {"mpi": "IntelMpi", "ps": "ParameterServer", "gloo": "gloo", "nccl": "nccl"}
_FRAMEWORKS = {"mpi": "Python", "ps": "TensorFlow", "gloo": "PyTorch", "nccl": "PyTorch"}
_BY_TRAINING = {
    Mpi: ("mpi", "Mpi", "Python"),
    MpiConfiguration: ("mpi", "IntelMpi", "Python"),
    ParameterServer: ("ps", "ParameterServer", "tensorflow"),
    TensorflowConfiguration: ("ps", "ParameterServer", "tensorflow"),
    Gloo: ("gloo", "Gloo", "pytorch"),
    Nccl: ("nccl", "Nccl", "pytorch"),
}


def backend_of(values: Mapping[str, Any]) -> str:
    """Return mpi, ps, gloo or nccl; "" for one process."""
    training = values.get("distributed_training")
    if training is not None:
        return next(backend for cls, (backend, _, _) in _BY_TRAINING.items() if isinstance(training, cls))
    return values.get("distributed_backend") or ""


def set_distribution(config: RunConfiguration, values: Mapping[str, Any]) -> None:
    """Set framework, communicator and counts. The words of `distributed_training` win over the estimator's own."""
    backend = backend_of(values)
    if not backend:
        return
    training = values.get("distributed_training")
    config.communicator, config.framework = _BY_BACKEND[backend], _FRAMEWORKS[backend]
    for cls, (_, communicator, framework) in _BY_TRAINING.items():
        if isinstance(training, cls):
            config.communicator, config.framework = communicator, framework
    config.node_count = max(values["node_count"], getattr(training, "node_count", 1))
    per_node = getattr(training, "process_count_per_node", values["process_count_per_node"])
    if backend == "mpi":
        config.mpi = MpiConfiguration(per_node, config.node_count)
    elif backend == "ps":
        config.tensorflow = _tensorflow(training, values)
    else:
        config.pytorch = PyTorchConfiguration(backend, per_node * config.node_count, config.node_count)


def processes_per_node(values: Mapping[str, Any]) -> int:
    training = values.get("distributed_training")
    return int(getattr(training, "process_count_per_node", values.get("process_count_per_node", 1)))


def _tensorflow(training: Any, values: Mapping[str, Any]) -> TensorflowConfiguration:
    source = {name: getattr(training, name, values[name]) for name in ("worker_count", "parameter_server_count")}
    return TensorflowConfiguration(**source)
