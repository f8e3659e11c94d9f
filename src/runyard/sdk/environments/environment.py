"""`Environment`: which Python, packages, variables and image a run gets.

Its sections come first: `python`, `docker`, and those that only Azure's services act on.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Union

from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.config.texts import check_texts, note_without_effect
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.errors import raises_azure_errors

if TYPE_CHECKING:
    from runyard.sdk.submit.environment_build import EnvironmentBuild, ImageDetails
    from runyard.sdk.workspaces.workspace import Workspace


# Azure's base images hold Ubuntu, MPI, conda and perhaps CUDA: nothing that an environment needs on a machine here.
AZURE_BASE_IMAGE = re.compile(
    r"(mcr\.microsoft\.com/)?azureml/(base|base-gpu|base-lite|(openmpi|intelmpi)[^/:]*)(:[\w.-]+)?"
)
DEFAULT_CPU_IMAGE = "azureml/openmpi4.1.0-ubuntu22.04"
DEFAULT_GPU_IMAGE = "azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04"
MPI_CPU_IMAGE = DEFAULT_CPU_IMAGE
MPI_GPU_IMAGE = DEFAULT_GPU_IMAGE
DEFAULT_NAME = "default-environment"


@raises_azure_errors
class PythonSection(SealedConfig):
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


@raises_azure_errors
class ContainerRegistry(SealedConfig):
    def __init__(self) -> None:
        self.address: Optional[str] = None
        self.username: Optional[str] = None
        self.password: Optional[str] = None
        self.registry_identity: Optional[str] = None
        self._seal()

    def to_plain(self) -> Dict[str, Any]:
        return {**super().to_plain(), "password": None if self.password is None else "***"}


@raises_azure_errors
class DockerSection(SealedConfig):
    """The image of a run in a container, which `enabled` (or DockerConfiguration(use_docker=True)) asks for."""

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


class DockerBuildContext(SealedConfig):
    """A folder with a Dockerfile from which an environment's image is built (docker.build_context)."""

    class LocationType:
        Git = "Git"
        StorageAccount = "StorageAccount"
        Directory = "Directory"

    def __init__(
        self,
        location_type: Optional[str] = None,
        location: Optional[str] = None,
        dockerfile_path: str = "Dockerfile",
    ) -> None:
        check_texts(location_type=location_type, location=location, dockerfile_path=dockerfile_path)
        self.location_type = location_type
        self.location = location
        self.dockerfile_path = dockerfile_path
        self._seal()

    @staticmethod
    def from_local_directory(
        workspace: Workspace, path: str, dockerfile_path: str = "Dockerfile"
    ) -> DockerBuildContext:
        """Return the context of a folder of this machine; its Dockerfile is read when a run is submitted."""
        import os  # only here

        folder = os.path.abspath(os.path.expanduser(os.fspath(path)))
        return DockerBuildContext(DockerBuildContext.LocationType.Directory, folder, dockerfile_path)


class Platform(SealedConfig):
    def __init__(self) -> None:
        self.os = "Linux"
        self.architecture = "amd64"
        self._seal()


class SparkSection(SealedConfig):
    def __init__(self) -> None:
        self.repositories: List[str] = []
        self.packages: List[Any] = []
        self.precache_packages = True
        self._seal()


class DatabricksSection(SealedConfig):
    def __init__(self) -> None:
        self.maven_libraries: List[Any] = []
        self.pypi_libraries: List[Any] = []
        self.rcran_libraries: List[Any] = []
        self.jar_libraries: List[Any] = []
        self.egg_libraries: List[Any] = []
        self._seal()


__all__ = [
    "DEFAULT_CPU_IMAGE",
    "DEFAULT_GPU_IMAGE",
    "DEFAULT_NAME",
    "MPI_CPU_IMAGE",
    "MPI_GPU_IMAGE",
    "ContainerRegistry",
    "DatabricksSection",
    "DockerBuildContext",
    "DockerSection",
    "Environment",
    "Platform",
    "PythonSection",
    "SparkSection",
]


# The methods load what they are about when they are called: most processes that import this only pass one on.
@raises_azure_errors
class Environment(SealedConfig):
    """A named environment: `python`, `docker` and `environment_variables` say what a run starts in.

    Raises:
        TypeError: the name is no text.
        AttributeError: on setting an attribute that does not exist.
    """

    def __init__(self, name: str) -> None:
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
        """Return an environment with the packages of a requirements file, read as pip reads it (`-r`, `-c`, `-e` too).

        Raises:
            UserErrorException: the file, or one that it names, is missing or holds what no environment can have.
        """
        from runyard.sdk.environments.sources import from_pip

        return from_pip(name, file_path, pip_version)

    @staticmethod
    def from_conda_specification(name: str, file_path: str) -> Environment:
        """Return an environment with the packages of a conda environment file; one without Python gets this one's.

        Raises:
            UserErrorException: the file is missing, or is no conda environment file.
        """
        from runyard.sdk.environments.sources import from_conda

        return from_conda(name, file_path)

    @staticmethod
    def from_project(
        name: str,
        file_path: str,
        *,
        extras: Sequence[str] = (),
        groups: Sequence[str] = (),
        without_groups: Sequence[str] = (),
        pixi_environment: str = "",
    ) -> Environment:
        """Return the environment of a project's own file: pyproject.toml, uv.lock, poetry.lock, pixi.toml or pixi.lock.

        Locked versions are taken with their hashes; the project's own code comes from the source directory. A script
        with a `# /// script` header is such a file too.

        Args:
            name: the environment's name.
            file_path: the file.
            extras: optional dependencies of the project that are installed too.
            groups: dependency groups beside those that uv or Poetry installs by default.
            without_groups: default groups that are left out, such as `dev`.
            pixi_environment: the environment of pixi's file, instead of `default`.

        Raises:
            UserErrorException: the file is missing, has not what is chosen, or no environment can be made from it.
        """
        from runyard.sdk.environments.lock_graph import Chosen
        from runyard.sdk.environments.projects import project_environment

        return project_environment(name, file_path, Chosen(extras, groups, without_groups, pixi_environment))

    @staticmethod
    def from_existing_conda_environment(name: str, conda_environment_name: str) -> Optional[Environment]:
        """Return an environment with the packages of a conda environment of this machine; None where conda is absent.

        Raises:
            UserErrorException: conda knows no such environment.
        """
        from runyard.sdk.environments.sources import from_conda_environment

        return from_conda_environment(name, conda_environment_name)

    @staticmethod
    def from_docker_image(
        name: str,
        image: str,
        container_registry: Optional[ContainerRegistry] = None,
        conda_specification: Optional[str] = None,
        pip_requirements: Optional[str] = None,
    ) -> Environment:
        """Return an environment on an image; without packages of its own, the image's Python is used as it is.

        Raises:
            UserErrorException: both conda and pip packages are given, or their file is missing.
        """
        from runyard.sdk.environments.sources import from_image

        return from_image(name, image, container_registry, conda_specification, pip_requirements)

    @staticmethod
    def from_dockerfile(
        name: str,
        dockerfile: str,
        conda_specification: Optional[str] = None,
        pip_requirements: Optional[str] = None,
    ) -> Environment:
        """Return an environment on the image that a Dockerfile (its path or its text) makes.

        Raises:
            UserErrorException: there is no such file; both conda and pip packages are given.
        """
        from runyard.sdk.environments.sources import from_dockerfile

        return from_dockerfile(name, dockerfile, conda_specification, pip_requirements)

    @staticmethod
    def from_docker_build_context(name: str, docker_build_context: DockerBuildContext) -> Environment:
        """Return an environment on the image that a folder's Dockerfile makes; the image's Python is used as it is.

        Raises:
            UserErrorException: it is no DockerBuildContext.
        """
        from runyard.sdk.environments.sources import from_build_context

        return from_build_context(name, docker_build_context)

    @staticmethod
    def add_private_pip_wheel(workspace: Workspace, file_path: str, exist_ok: bool = False) -> str:
        """Store a wheel in the workspace's default datastore; return its address, for `add_pip_package`.

        Raises:
            UserErrorException: it is no wheel, another one of its name is there and `exist_ok` is not set, or the
                datastore is not a folder that nodes install from.
        """
        from runyard.sdk.environments.sources import store_wheel

        return store_wheel(workspace, file_path, exist_ok=exist_ok)

    @staticmethod
    def get(
        workspace: Workspace, name: str, version: Union[str, int, None] = None, label: Optional[str] = None
    ) -> Environment:
        """Return a registered or curated environment; upper and lower case are the same. The latest version by default.

        Raises:
            UserErrorException: there is none (the near names are listed), or both version and label are given.
        """
        from runyard.sdk.environments.registry import get

        return get(workspace, name, version, label)

    @staticmethod
    def list(workspace: Workspace) -> Dict[str, Environment]:
        """Return the latest version of every registered environment, and the curated ones, by name."""
        from runyard.sdk.environments.registry import list_all

        return list_all(workspace)

    @staticmethod
    def label(workspace: Workspace, name: str, version: Union[str, int], labels: Iterable[str]) -> None:
        """Give a version labels for `get(label=…)`; a label that another version has moves here."""
        from runyard.sdk.environments.registry import set_labels

        set_labels(workspace, name, version, labels)

    @staticmethod
    def load_from_directory(path: str) -> Environment:
        """Return the environment that `save_to_directory` wrote, here or in Azure's SDK.

        Raises:
            FileNotFoundError: the folder holds no environment.
        """
        from runyard.sdk.environments.files import read_folder

        return read_folder(path)

    def register(self, workspace: Workspace) -> Environment:
        """Store it and return it with its version: '1', '2', …; the same content again is the same version.

        Raises:
            UserErrorException: the name is none, or one that only curated environments have (`AzureML-…`).
        """
        from runyard.sdk.environments.registry import register

        return register(self, workspace)

    def build(self, workspace: Workspace, image_build_compute: Optional[str] = None) -> EnvironmentBuild:
        """Build it now, so that no run has to wait; return at once: `.status`, `.get_log()`, `.wait_for_completion()`.

        Raises:
            UserErrorException: it cannot be built, for a reason that is seen before the work.
        """
        from runyard.sdk.submit.environment_build import start_build

        return start_build(self, workspace, target=image_build_compute)

    def build_local(
        self,
        workspace: Workspace,
        platform: Any = None,
        useDocker: Optional[bool] = None,
        pushImageToWorkspaceAcr: Optional[bool] = None,
    ) -> EnvironmentBuild:
        """Build it on this machine, print the log, and return when it is done."""
        note_without_effect(
            {"platform": platform, "useDocker": useDocker, "pushImageToWorkspaceAcr": pushImageToWorkspaceAcr}
        )
        from runyard.sdk.submit.environment_build import start_build

        build = start_build(self, workspace)
        build.wait_for_completion(show_output=True)
        return build

    def get_image_details(self, workspace: Workspace) -> ImageDetails:
        """Return what its latest build made; `["imageExistsInRegistry"]` is False when there was none."""
        from runyard.sdk.submit.environment_build import image_details

        return image_details(self, workspace)

    def save_to_directory(self, path: str, overwrite: bool = False) -> None:
        """Write the environment into the folder: its definition, the packages and the base Dockerfile.

        Raises:
            FileExistsError: the folder exists and `overwrite` is not set.
        """
        from runyard.sdk.environments.files import write_folder

        write_folder(self, path, overwrite=overwrite)
