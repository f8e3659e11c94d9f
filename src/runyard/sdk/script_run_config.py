"""`ScriptRunConfig`: a script or command, its source folder, and how it is run."""

from __future__ import annotations

from typing import Any, List, Optional, Union

from runyard.sdk.environment import Environment
from runyard.sdk.exceptions import RunConfigurationException, UserErrorException
from runyard.sdk.notices import warn
from runyard.sdk.run_configuration import (
    DockerConfiguration,
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
)

THIRTY_DAYS_S = 2592000
Distribution = Union[MpiConfiguration, TensorflowConfiguration, PyTorchConfiguration]


class ScriptRunConfig:
    """What `experiment.submit` takes. Without a target it runs on this machine, without an environment in this Python.

    Args:
        source_directory: the folder that is stored with the run and that the script starts in.
        script: path of the script, relative to `source_directory`.
        arguments: numbers and texts; they reach the script as text. `$VAR` is expanded on the node.
        run_config: a whole RunConfiguration; the arguments after it (but `command`) are then ignored with a warning.
        max_run_duration_seconds: the run is canceled when it takes longer.
        command: a shell command instead of a script; a list is joined with spaces.
    """

    def __init__(
        self,
        source_directory: Optional[str] = None,
        script: Optional[str] = None,
        arguments: Optional[List[Any]] = None,
        run_config: Optional[RunConfiguration] = None,
        compute_target: Any = None,
        environment: Optional[Environment] = None,
        distributed_job_config: Optional[Distribution] = None,
        resume_from: Any = None,
        max_run_duration_seconds: Optional[float] = THIRTY_DAYS_S,
        command: Union[str, List[str], None] = None,
        docker_runtime_config: Optional[DockerConfiguration] = None,
    ) -> None:
        if resume_from is not None:
            raise UserErrorException(f"resume_from takes a DataPath, found {type(resume_from).__name__}.")
        self.source_directory = source_directory
        self.script = script
        self.arguments = arguments
        self.command = command
        if run_config is not None:
            if not isinstance(run_config, RunConfiguration):
                raise UserErrorException(f"run_config must be a RunConfiguration, found {type(run_config).__name__}.")
            if compute_target or environment or distributed_job_config or docker_runtime_config:
                warn(
                    "run_config decides: compute_target, environment, distributed_job_config, "
                    "max_run_duration_seconds and docker_runtime_config are not used beside it."
                )
            self.run_config = run_config
            return
        self.run_config = RunConfiguration()
        self.run_config.max_run_duration_seconds = max_run_duration_seconds
        if compute_target is not None:
            self.run_config.target = compute_target
        if environment is not None:
            self.run_config.environment = _checked_environment(environment)
        _set_docker(self.run_config, docker_runtime_config)
        if distributed_job_config is not None:
            _set_distribution(self.run_config, distributed_job_config)


def _checked_environment(environment: Environment) -> Environment:
    if isinstance(environment, Environment):
        return environment
    raise UserErrorException(
        f"environment must be an Environment, found {type(environment).__name__} ({environment!r:.100}). "
        f"Make one with Environment('name')."
    )


def _set_docker(config: RunConfiguration, docker: Optional[DockerConfiguration]) -> None:
    if docker is None:
        section = config.environment.docker
        config.docker = DockerConfiguration(
            section.enabled, section.shared_volumes, section.arguments, section.shm_size
        )
    elif isinstance(docker, DockerConfiguration):
        config.docker = docker
    else:
        raise RunConfigurationException(
            f"docker_runtime_config takes a DockerConfiguration, found {type(docker).__name__}."
        )


def _set_distribution(config: RunConfiguration, distribution: Distribution) -> None:
    if isinstance(distribution, MpiConfiguration):
        config.framework, config.communicator = "Python", "IntelMpi"
        config.mpi, config.node_count = distribution, distribution.node_count
    elif isinstance(distribution, TensorflowConfiguration):
        config.framework, config.communicator = "TensorFlow", "ParameterServer"
        config.tensorflow, config.node_count = distribution, distribution.worker_count
    elif isinstance(distribution, PyTorchConfiguration):
        config.framework, config.communicator = "PyTorch", distribution.communication_backend
        config.pytorch, config.node_count = distribution, distribution.node_count
    else:
        raise RunConfigurationException(
            "distributed_job_config takes an MpiConfiguration, PyTorchConfiguration or TensorflowConfiguration, "
            f"found {type(distribution).__name__}."
        )
