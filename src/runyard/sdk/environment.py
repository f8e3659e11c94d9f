"""`Environment`: which Python, packages, variables and image a run gets."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any, Dict, Iterable, List, Optional

from runyard.sdk.conda_dependencies import CondaDependencies
from runyard.sdk.edge import translates_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.guarded import Guarded
from runyard.sdk.not_yet import refuse

DEFAULT_CPU_IMAGE = "azureml/openmpi4.1.0-ubuntu22.04"
DEFAULT_GPU_IMAGE = "azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04"
MPI_CPU_IMAGE = DEFAULT_CPU_IMAGE
MPI_GPU_IMAGE = DEFAULT_GPU_IMAGE
DEFAULT_NAME = "default-environment"


class PythonSection(Guarded):
    """`user_managed_dependencies` True: run in the submitting interpreter, or in `interpreter_path`."""

    conda_dependencies: CondaDependencies

    def __init__(self) -> None:
        self.user_managed_dependencies = False
        self.interpreter_path = "python"
        self.conda_dependencies_file: Optional[str] = None
        self.base_conda_environment: Optional[str] = None
        self.conda_dependencies = CondaDependencies()
        self._seal()

    def to_plain(self) -> Dict[str, Any]:
        found = super().to_plain()
        dependencies = self.conda_dependencies
        found["condaDependencies"] = dependencies.as_dict() if isinstance(dependencies, CondaDependencies) else None
        return found


class ContainerRegistry(Guarded):
    def __init__(self) -> None:
        self.address: Optional[str] = None
        self.username: Optional[str] = None
        self.password: Optional[str] = None
        self.registry_identity: Optional[str] = None
        self._seal()

    def to_plain(self) -> Dict[str, Any]:
        return {**super().to_plain(), "password": None if self.password is None else "***"}


class DockerSection(Guarded):
    """Kept for later releases; a run in a container is not there yet."""

    _unused = frozenset({"gpu_support"})

    def __init__(self) -> None:
        self.enabled = False
        self._base_image: Optional[str] = DEFAULT_CPU_IMAGE
        self._base_dockerfile: Optional[str] = None
        self.build_context: Any = None
        self.shared_volumes = True
        self.shm_size: Optional[str] = "2g"
        self.arguments: List[str] = []
        self.base_image_registry = ContainerRegistry()
        self.platform = Platform()
        self.gpu_support = False
        self._seal()

    @property
    def base_image(self) -> Optional[str]:
        return self._base_image

    @base_image.setter
    def base_image(self, value: Optional[str]) -> None:
        self._base_image = value
        if value is not None:  # only an image takes the Dockerfile's place
            self._base_dockerfile = None

    @property
    def base_dockerfile(self) -> Optional[str]:
        return self._base_dockerfile

    @base_dockerfile.setter
    def base_dockerfile(self, value: Optional[str]) -> None:
        self._base_dockerfile = value
        if value is not None:
            self._base_image = None


class Platform(Guarded):
    def __init__(self) -> None:
        self.os = "Linux"
        self.architecture = "amd64"
        self._seal()


class SparkSection(Guarded):
    def __init__(self) -> None:
        self.repositories: List[str] = []
        self.packages: List[Any] = []
        self.precache_packages = True
        self._seal()


class DatabricksSection(Guarded):
    def __init__(self) -> None:
        self.maven_libraries: List[Any] = []
        self.pypi_libraries: List[Any] = []
        self.rcran_libraries: List[Any] = []
        self.jar_libraries: List[Any] = []
        self.egg_libraries: List[Any] = []
        self._seal()


@translates_errors
class Environment(Guarded):
    """A named environment: `python`, `docker` and `environment_variables` say what a run starts in.

    Raises:
        TypeError: the name is no text.
        AttributeError: on setting an attribute that does not exist.
    """

    def __init__(self, name: str, **_kwargs: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"An environment's name must be text, found {type(name).__name__}.")
        self.name = name
        self.version: Optional[str] = None
        self.environment_variables: Dict[str, str] = {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}
        self.python = PythonSection()
        self.docker = DockerSection()
        self.spark = SparkSection()
        self.databricks = DatabricksSection()
        self.r: Any = None
        self.inferencing_stack_version: Optional[str] = None
        self.asset_id: Optional[str] = None
        self._seal()

    def __str__(self) -> str:
        return f"Environment(Name: {self.name},\nVersion: {self.version})"

    def clone(self, new_name: str) -> Environment:
        """Return a deep copy under another name."""
        copy = deepcopy(self)
        copy.name, copy.version = new_name, None
        return copy

    @staticmethod
    def from_pip_requirements(name: str, file_path: str, pip_version: Optional[str] = None) -> Environment:
        """Return an environment with the packages of a requirements file.

        Raises:
            UserErrorException: the file is missing, or names another file (`-r`), which is not read.
        """
        environment = Environment(name)
        environment.python.conda_dependencies = CondaDependencies.create(pip_packages=_read_requirements(file_path))
        return environment

    @staticmethod
    def from_conda_specification(name: str, file_path: str) -> Environment:
        """Return an environment with the packages of a conda environment file."""
        environment = Environment(name)
        environment.python.conda_dependencies = CondaDependencies(file_path)
        return environment

    @staticmethod
    def from_existing_conda_environment(name: str, conda_environment_name: str) -> Environment:
        refuse(
            "`Environment.from_existing_conda_environment`",
            hint="Set env.python.user_managed_dependencies = True and env.python.interpreter_path to that conda "
            "environment's bin/python.",
        )

    @staticmethod
    def from_docker_image(name: str, image: str, **_kwargs: Any) -> Environment:
        refuse("`Environment.from_docker_image`")

    @staticmethod
    def from_dockerfile(name: str, dockerfile: str, **_kwargs: Any) -> Environment:
        refuse("`Environment.from_dockerfile`")

    @staticmethod
    def get(workspace: Any, name: str, version: Optional[str] = None, label: Optional[str] = None) -> Environment:
        refuse("`Environment.get`", hint='Make it here: Environment("name").')

    @staticmethod
    def list(workspace: Any) -> Dict[str, Environment]:
        refuse("`Environment.list`")

    @staticmethod
    def label(workspace: Any, name: str, version: str, labels: Iterable[str]) -> None:
        refuse("`Environment.label`")

    @staticmethod
    def load_from_directory(path: str) -> Environment:
        """Return the environment that `save_to_directory` wrote, here or in Azure's SDK.

        Raises:
            FileNotFoundError: the folder holds no environment.
        """
        from runyard.sdk.environment_file import read_folder

        return read_folder(path)

    def register(self, workspace: Any) -> Environment:
        refuse("`Environment.register`", hint="An environment need not be registered: pass it to ScriptRunConfig.")

    def build(self, workspace: Any, **_kwargs: Any) -> Any:
        refuse("`Environment.build`")

    def build_local(self, workspace: Any, **_kwargs: Any) -> Any:
        refuse("`Environment.build_local`")

    def get_image_details(self, workspace: Any) -> Any:
        refuse("`Environment.get_image_details`")

    def save_to_directory(self, path: str, overwrite: bool = False) -> None:
        """Write the environment into the folder: its definition, the packages and the base Dockerfile.

        Raises:
            FileExistsError: the folder exists and `overwrite` is not set.
        """
        from runyard.sdk.environment_file import write_folder

        write_folder(self, path, overwrite=overwrite)


def _read_requirements(path: str) -> List[str]:
    if not os.path.isfile(path):
        raise UserErrorException(f"The requirements file {path!r} does not exist (looked in {os.getcwd()}).")
    with open(path, encoding="utf-8") as file:
        lines = [line.split(" #")[0].strip() for line in file.read().replace("\\\n", " ").splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    for line in found:
        if line.startswith(("-r", "-c", "--requirement", "--constraint")):
            raise UserErrorException(
                f"The requirements file {path!r} names another file ({line!r}). Put its lines here instead."
            )
    return found
