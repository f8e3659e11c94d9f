"""`RunConfiguration` and its sections: everything about how a script is run, with Azure's names and defaults.

The functions at the end write and read it as files: `.azureml/<name>`, with `conda_dependencies.yml` beside it.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Union

from runyard.core.yaml.writer import dump
from runyard.sdk.config.files import FilePosition, read_yaml, write_text
from runyard.sdk.config.objects import SealedConfig, checked_value, variable_values
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import DEFAULT_NAME, Environment
from runyard.sdk.environments.files import environment_plain, read_environment
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.resources import Resources, as_resources

_NEEDED = ("target", "framework", "communicator")  # null is no value of these
_CONDA = "conda_dependencies.yml"
_ENVIRONMENT = "environment.yml"


@raises_azure_errors
class MpiConfiguration(SealedConfig):
    """`node_count` nodes with `process_count_per_node` processes each, started by MPI."""

    def __init__(self, process_count_per_node: int = 1, node_count: int = 1) -> None:
        self.process_count_per_node = process_count_per_node
        self.node_count = node_count
        self._seal()


@raises_azure_errors
class TensorflowConfiguration(SealedConfig):
    """Workers and parameter servers that find each other through `TF_CONFIG`."""

    def __init__(self, worker_count: int = 1, parameter_server_count: int = 1) -> None:
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count
        self._seal()


@raises_azure_errors
class PyTorchConfiguration(SealedConfig):
    """`process_count` processes over `node_count` nodes; None: one per node."""

    def __init__(
        self, communication_backend: str = "Nccl", process_count: Optional[int] = None, node_count: int = 1
    ) -> None:
        self.communication_backend = str(communication_backend).lower()
        self.process_count = process_count
        self.node_count = node_count
        self._seal()


@raises_azure_errors
class DockerConfiguration(SealedConfig):
    def __init__(
        self,
        use_docker: bool = False,
        shared_volumes: bool = True,
        arguments: Optional[List[str]] = None,
        shm_size: Optional[str] = "2g",
    ) -> None:
        self.use_docker = use_docker
        self.shared_volumes = shared_volumes
        self.arguments: List[str] = arguments if arguments is not None else []
        self.shm_size = shm_size
        self._seal()


@raises_azure_errors
class DataReferenceConfiguration(SealedConfig):
    def __init__(
        self,
        datastore_name: Optional[str] = None,
        mode: str = "mount",
        path_on_datastore: Optional[str] = None,
        path_on_compute: Optional[str] = None,
        overwrite: bool = False,
    ) -> None:
        self.data_store_name = datastore_name
        self.path_on_data_store = path_on_datastore
        self.mode = mode
        self.overwrite = overwrite
        self.path_on_compute = path_on_compute
        self._seal()


@raises_azure_errors
class HistoryConfiguration(SealedConfig):
    """`directories_to_watch` ship while the run goes on, beside `outputs`."""

    def __init__(self) -> None:
        self.output_collection = True
        self.snapshot_project = True
        self.directories_to_watch: Optional[List[str]] = ["logs"]
        self._seal()


class SparkConfiguration(SealedConfig):
    def __init__(self) -> None:
        self.configuration: Dict[str, Any] = {"spark.app.name": "Azure ML Experiment", "spark.yarn.maxAppAttempts": 1}
        self._seal()


class HdiConfiguration(SealedConfig):
    def __init__(self) -> None:
        self.yarn_deploy_mode = "cluster"
        self._seal()


class ParallelTaskConfiguration(SealedConfig):
    def __init__(self) -> None:
        self.max_retries_per_worker = 0
        self.worker_count_per_node = 1
        self.terminal_exit_codes: Optional[List[int]] = None
        self._seal()


class AmlComputeConfiguration(SealedConfig):
    def __init__(self) -> None:
        self.vm_size: Optional[str] = None
        self.vm_priority: Optional[str] = None
        self.retain_cluster = False
        self.name: Optional[str] = None
        self.cluster_max_node_count: Optional[int] = None
        self._seal()


class KubernetesComputeConfiguration(SealedConfig):
    def __init__(self) -> None:
        self.instance_type: Optional[str] = None
        self._seal()


class ContainerInstanceConfiguration(SealedConfig):
    """Of 2018, with `target = "containerinstance"`: scripts set it, nothing acts on it."""

    def __init__(self) -> None:
        self.region: Optional[str] = None
        self.cpu_cores = 2
        self.memory_gb = 3.5
        self._seal()


@raises_azure_errors
class RunConfiguration(SealedConfig):
    """How a script or command is run: target, environment, distribution, limits, variables.

    Raises:
        AttributeError: on setting an attribute that does not exist.
    """

    _unused = frozenset({"auto_prepare_environment", "prepare_environment", "container_instance"})

    def __init__(
        self,
        script: Optional[str] = None,
        arguments: Optional[List[Any]] = None,
        framework: Optional[str] = None,
        communicator: Optional[str] = None,
        conda_dependencies: Optional[CondaDependencies] = None,
        _history_enabled: Optional[bool] = None,
        _path: Optional[str] = None,
        _name: Optional[str] = None,
        command: Union[str, List[str], None] = None,
    ) -> None:
        self._path = _path
        self._name = _name
        self._inputs: List[Any] = []  # datasets that a run gets without an argument, from an estimator's inputs
        self._gpus: Optional[int] = None  # per node, as an estimator's use_gpu says it
        self._resources = Resources()
        self._max_attempts = 1
        self._keep: List[str] = []
        self.script = script
        self.arguments: List[Any] = arguments if arguments is not None else []
        self._target = "local"
        self.framework = framework or "Python"
        self.communicator = communicator or "None"
        self.max_run_duration_seconds: Optional[float] = None
        self.node_count = 1
        self.priority: Optional[int] = None
        self.environment = Environment(DEFAULT_NAME)
        self.history = HistoryConfiguration()
        self.spark = SparkConfiguration()
        self.docker = DockerConfiguration()
        self.hdi = HdiConfiguration()
        self.tensorflow = TensorflowConfiguration()
        self.mpi = MpiConfiguration()
        self.pytorch = PyTorchConfiguration()
        self.paralleltask = ParallelTaskConfiguration()
        self.data_references: Dict[str, Any] = {}
        self.data: Dict[str, Any] = {}
        self.datacaches: List[Any] = []
        self.output_data: Dict[str, Any] = {}
        self.source_directory_data_store: Optional[str] = None
        self.amlcompute = AmlComputeConfiguration()
        self.auto_cluster_compute_specification: Any = None
        self.kubernetescompute = KubernetesComputeConfiguration()
        self.credential_passthrough = False
        self.command: Union[str, List[str], None] = command if command is not None else ""
        self.environment_variables: Dict[str, str] = {}
        self.application_endpoints: Dict[str, Any] = {}
        self.container_instance = ContainerInstanceConfiguration()
        if conda_dependencies is not None:
            self.environment.python.conda_dependencies = conda_dependencies
        self._seal()

    @property
    def target(self) -> str:
        return self._target

    @target.setter
    def target(self, value: Any) -> None:
        """Set the compute target by its name; an object that has a `name` is stored by it, None is this machine."""
        if value is None:
            value = "local"
        if not isinstance(value, str) and not isinstance(getattr(value, "name", None), str):
            raise UserErrorException(
                f"target is the name of a compute target, or the target itself, found {value!r:.100}."
            )
        self._target = value if isinstance(value, str) else value.name

    @property
    def resources(self) -> Resources:
        """What each node of the run shall have; not of Azure. A dict of its parameters can be set as well."""
        return self._resources

    @resources.setter
    def resources(self, value: Any) -> None:
        self._resources = as_resources(value)

    @property
    def max_attempts(self) -> int:
        """How often the run is started at most, when its node is lost or it is preempted; not of Azure."""
        return self._max_attempts

    @max_attempts.setter
    def max_attempts(self, value: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserErrorException(f"max_attempts is {value!r}; it must be a whole number, 1 or more.")
        self._max_attempts = value

    @property
    def keep(self) -> List[str]:
        """Files and folders of the work folder to store beside `./outputs` and `./logs`; not of Azure.

        Paths and globs (`runs`, `*.pt`, `results/**/*.csv`) below the work folder; one without a slash fits at any
        depth. Only what the run made or changed is stored: the rest is in its snapshot.
        """
        return self._keep

    @keep.setter
    def keep(self, value: Any) -> None:
        self._keep = read_keep(value)

    def to_plain(self) -> Dict[str, Any]:
        found = super().to_plain()
        if not self._keep:
            del found["keep"]
        if self._resources.to_plain() == Resources().to_plain():
            del found["resources"]
        if self._max_attempts == 1:
            del found["maxAttempts"]
        return found

    def save(
        self, path: Optional[str] = None, name: Optional[str] = None, separate_environment_yaml: bool = False
    ) -> None:
        """Write `<path>/.azureml/<name>` and `conda_dependencies.yml` beside it; without a name, `path` is the file.

        Raises:
            UserErrorException: there is no such folder, or a value that no file can hold.
        """
        from runyard.sdk.config.files import new_settings

        place = new_settings(path or self._path, name or (None if path and os.path.isfile(path) else self._name))
        write_run_configuration(self, place, separate_environment=separate_environment_yaml)

    @staticmethod
    def load(path: str, name: Optional[str] = None) -> RunConfiguration:
        """Return the configuration in `<path>/.azureml/<name>` (or `aml_config`); without a name, `path` is the file.

        Raises:
            UserErrorException: there is none, it is no YAML, or a key is misspelt.
        """
        from runyard.sdk.config.files import find_settings

        place = find_settings(path, name)
        config = RunConfiguration(_path=path if name else None, _name=name)
        read_run_configuration(config, place)
        return config

    @staticmethod
    def delete(path: str, name: str) -> None:
        """Remove the file of a saved configuration; the packages' file, which others share, stays.

        Raises:
            UserErrorException: there is none.
        """
        from runyard.sdk.config.files import find_settings

        os.unlink(find_settings(path, name).file)


def read_keep(value: Any) -> List[str]:
    """Return paths and globs below the work folder, as a run's spec has them: `./runs/` is `runs`, `.` is all of it.

    Raises:
        UserErrorException: one is no text, is empty, or leaves the work folder.
    """
    given = [value] if isinstance(value, (str, os.PathLike)) else list(value or [])
    found = []
    for path in given:
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
        clean = os.path.normpath(text).replace(os.sep, "/") if text else ""
        if not isinstance(text, str) or not clean or os.path.isabs(clean) or clean.split("/")[0] == os.pardir:
            raise UserErrorException(
                f"keep has {path!r}; only files and folders below the run's work folder can be kept.\n"
                "Give paths or globs relative to it: keep=['runs', '*.pt']."
            )
        found.append("*" if clean == "." else clean)
    return list(dict.fromkeys(found))


def write_run_configuration(config: RunConfiguration, place: FilePosition, *, separate_environment: bool) -> None:
    """Write the configuration and its packages; with `separate_environment`, its environment in a third file.

    Raises:
        UserErrorException: a value that no file can hold, or a folder that cannot be written.
    """
    plain = config.to_plain()
    plain["arguments"] = [_argument(value) for value in plain["arguments"] or []]
    environment = environment_plain(config.environment, conda_file=_beside(place, _CONDA))
    plain["environment"] = _beside(place, _ENVIRONMENT) if separate_environment else environment
    text = _text(plain)
    dependencies = config.environment.python.conda_dependencies
    if isinstance(dependencies, CondaDependencies):
        write_text(os.path.join(place.root, _beside(place, _CONDA)), dependencies.serialize_to_string())
    if separate_environment:
        write_text(os.path.join(place.root, _beside(place, _ENVIRONMENT)), _text(environment))
    write_text(place.file, text)


def read_run_configuration(config: RunConfiguration, place: FilePosition) -> None:
    """Take over what the file says.

    Raises:
        UserErrorException: a misspelt key or a wrong value.
        InvalidArgument: the file is no YAML.
    """
    found = {key: value for key, value in read_yaml(place.file).items() if value is not None or key not in _NEEDED}
    environment, command = found.pop("environment", None), found.pop("command", None)
    try:
        config.read_plain(found)
        config.environment_variables = variable_values(config.environment_variables)
        config.script = checked_value("", config.script, "script")
        config.command = command if isinstance(command, list) else checked_value("", command, "command") or ""
        if isinstance(environment, str):
            environment = read_yaml(place.find(environment))
        read_environment(config.environment, environment, place)
        config.data_references = _data_references(config.data_references)
    except UserErrorException as error:
        if type(error) is not UserErrorException:  # about another file, which it names itself
            raise
        raise UserErrorException(f"{place.file}: {error.message}") from None


def _data_references(found: Dict[str, Any]) -> Dict[str, Any]:

    made = {}
    for name, value in found.items():
        made[str(name)] = reference = DataReferenceConfiguration()
        reference.read_plain(value, f"dataReferences.{name}")
    return made


def _beside(place: FilePosition, name: str) -> str:
    return os.path.relpath(os.path.join(os.path.dirname(place.file), name), place.root)


def _text(plain: Dict[str, Any]) -> str:
    try:
        return dump(plain)
    except TypeError as error:
        raise UserErrorException(f"This run configuration cannot be saved: {error}") from None


def _argument(value: Any) -> Any:
    from runyard.sdk.submit.arguments import argument_texts

    if isinstance(value, (str, bool, int, float)):
        return value
    texts: List[str] = argument_texts([value])
    return texts[0]
