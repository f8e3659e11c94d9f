"""`ScriptRunConfig`: a script or command, its source folder, and how it is run."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import warn
from runyard.sdk.environments.environment import Environment
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import RunConfigurationException, UserErrorException
from runyard.sdk.run_config.run_configuration import (
    DockerConfiguration,
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
)

THIRTY_DAYS_S = 2592000
_OWN = ("source_directory", "script", "arguments", "command", "run_config")
_RENAMED = {"compute_target": "target", "docker_runtime_config": "docker"}  # parameters, under their attributes' names
Distribution = Union[MpiConfiguration, TensorflowConfiguration, PyTorchConfiguration]


@raises_azure_errors
class ScriptRunConfig(AzureClass):
    """What `experiment.submit` takes. Without a target it runs on this machine, without an environment in this Python.

    Args:
        source_directory: the folder that is stored with the run and that the script starts in.
        script: path of the script, relative to `source_directory`.
        arguments: numbers and texts; they reach the script as text. `$VAR` is expanded on the node.
        run_config: a whole RunConfiguration; the arguments after it (but `command`) are then ignored with a warning.
        resume_from: a DataPath; the script gets `--resume-from <its path>` at the end of its arguments.
        max_run_duration_seconds: the run is canceled when it takes longer.
        command: a shell command instead of a script; a list is joined with spaces.
        resources: a Resources (or a dict of its parameters): what each node shall have, on clusters.
        max_attempts: how often the run is started at most, when its node is lost or it is preempted.
        keep: files and folders to store beside `./outputs` and `./logs`: paths and globs; see RunConfiguration.keep.
    """

    def __init__(
        self,
        source_directory: Optional[str] = None,
        script: Optional[str] = None,
        arguments: Optional[List[Any]] = None,
        run_config: Union[RunConfiguration, str, None] = None,
        compute_target: Any = None,
        environment: Optional[Environment] = None,
        distributed_job_config: Optional[Distribution] = None,
        resume_from: Any = None,
        max_run_duration_seconds: Optional[float] = THIRTY_DAYS_S,
        command: Union[str, List[str], None] = None,
        docker_runtime_config: Optional[DockerConfiguration] = None,
        *,
        resources: Any = None,
        max_attempts: Optional[int] = None,
        keep: Optional[Sequence[str]] = None,
    ) -> None:
        self.source_directory = source_directory
        self.script = script
        self.arguments = arguments
        self.command = command
        if run_config is not None and run_config != "":  # notebooks of 2020 pass an empty text
            if not isinstance(run_config, RunConfiguration):
                raise UserErrorException(f"run_config must be a RunConfiguration, found {type(run_config).__name__}.")
            _warn_unused(
                compute_target=compute_target,
                environment=environment,
                distributed_job_config=distributed_job_config,
                max_run_duration_seconds=max_run_duration_seconds
                if max_run_duration_seconds != THIRTY_DAYS_S
                else None,
                docker_runtime_config=docker_runtime_config,
            )
            self.run_config = run_config
        else:
            self.run_config = _new_run_config(
                compute_target, environment, distributed_job_config, max_run_duration_seconds, docker_runtime_config
            )
        if resources is not None:
            self.run_config.resources = resources
        if max_attempts is not None:
            self.run_config.max_attempts = max_attempts
        if keep is not None:
            self.run_config.keep = keep
        if resume_from is not None:
            self._resume(_with_resume(self.arguments, resume_from, command=self.command))

    @property
    def script(self) -> Optional[str]:
        """The script given here, else that of `run_config`; the same holds for `arguments` and `command`."""
        return self._script or (None if self._command else self.run_config.script)

    @script.setter
    def script(self, value: Optional[str]) -> None:
        self._script = value

    @property
    def arguments(self) -> Any:
        if self._arguments is None and not self._command:
            return self.run_config.arguments
        return self._arguments

    @arguments.setter
    def arguments(self, value: Any) -> None:
        self._arguments = value

    @property
    def command(self) -> Union[str, List[str], None]:
        return self._command or ("" if self._script else self.run_config.command)

    @command.setter
    def command(self, value: Union[str, List[str], None]) -> None:
        self._command = value

    def _resume(self, arguments: List[Any]) -> None:
        """Take over arguments where they were given, on a copy of a run configuration that is the user's own."""
        if self._arguments is not None:
            self.arguments = arguments
            return
        from copy import copy

        self.run_config = copy(self.run_config)
        self.run_config.arguments = arguments

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _OWN and not name.startswith("_") and type(self) is ScriptRunConfig:
            _refuse_lost(name, self.__dict__.get("run_config"))
        object.__setattr__(self, name, value)


def get_run_config_from_script_run(script_run_config: ScriptRunConfig) -> RunConfiguration:
    """Return the run configuration with the script, arguments and command of the ScriptRunConfig, which win."""
    from copy import copy  # the user's own object stays as it is

    if not isinstance(script_run_config, ScriptRunConfig):
        raise UserErrorException(f"A ScriptRunConfig is needed, found {type(script_run_config).__name__}.")
    settings = copy(script_run_config.run_config)
    for name in ("script", "arguments", "command"):
        given = getattr(script_run_config, name)
        if getattr(settings, name) not in (None, "", [], given):
            warn(f"What ScriptRunConfig says about script, arguments or command wins over run_config.{name}.")
        setattr(settings, name, given)
    return settings


def _refuse_lost(name: str, run_config: Any) -> None:
    """Refuse a setting that would have no effect here without a word: one of `run_config`, or a misspelt one."""
    from difflib import get_close_matches  # only for the message

    elsewhere = _RENAMED.get(name, name)
    if hasattr(run_config, elsewhere):
        raise AttributeError(f"ScriptRunConfig has no attribute `{name}`. Set `run_config.{elsewhere}`.")
    near = get_close_matches(name, _OWN, n=1, cutoff=0.8)
    if near:
        raise AttributeError(f"ScriptRunConfig has no attribute `{name}`. Did you mean `{near[0]}`?")


def _warn_unused(**given: Any) -> None:
    names = [name for name, value in given.items() if value is not None]
    if names:
        warn(f"run_config decides: {', '.join(names)} {'is' if len(names) == 1 else 'are'} not used beside it.")


def _new_run_config(
    compute_target: Any,
    environment: Optional[Environment],
    distributed_job_config: Optional[Distribution],
    max_run_duration_seconds: Optional[float],
    docker_runtime_config: Optional[DockerConfiguration],
) -> RunConfiguration:
    config = RunConfiguration()
    config.max_run_duration_seconds = max_run_duration_seconds
    if compute_target is not None:
        config.target = compute_target
    if environment is not None:
        config.environment = _checked_environment(environment)
    _set_docker(config, docker_runtime_config)
    if distributed_job_config is not None:
        _set_distribution(config, distributed_job_config)
    return config


def _with_resume(arguments: Optional[List[Any]], resume_from: Any, *, command: Any) -> List[Any]:
    """Return the arguments with `--resume-from <path>` at their end."""
    from runyard.sdk.data.inputs import DataPath  # few runs resume

    if not isinstance(resume_from, DataPath):
        raise UserErrorException(
            f"resume_from takes a DataPath, found {type(resume_from).__name__}.\n"
            "Make one: DataPath(ws.get_default_datastore(), 'checkpoints'), or take an earlier run's: "
            "run._get_outputs_datapath()."
        )
    if command:
        raise UserErrorException(
            "resume_from goes with a script, to which it adds `--resume-from <path>`.\n"
            "With a command, give the reference as a part of it: command=['python', 'train.py', datastore.path('x')]."
        )
    return [*(arguments or []), "--resume-from", resume_from.create_data_reference("MODEL_LOCATION")]


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
