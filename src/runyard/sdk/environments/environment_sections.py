"""The sections of an `Environment`: `python`, `docker`, and those that only Azure's services act on."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from runyard.sdk.config.objects import Guarded
from runyard.sdk.environments.conda_dependencies import CondaDependencies

DEFAULT_CPU_IMAGE = "azureml/openmpi4.1.0-ubuntu22.04"
DEFAULT_GPU_IMAGE = "azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04"
MPI_CPU_IMAGE = DEFAULT_CPU_IMAGE
MPI_GPU_IMAGE = DEFAULT_GPU_IMAGE


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
