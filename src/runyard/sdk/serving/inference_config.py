"""`InferenceConfig`: the entry script of a service, its source folder and its environment. Checked when it is made."""

from __future__ import annotations

import ast
import keyword
import os
from typing import TYPE_CHECKING, Any, Optional

from runyard.core.webservices import Definition
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts, warn_once
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.plan import dependencies_of
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException, WebserviceException

if TYPE_CHECKING:
    from runyard.sdk.environments.environment import ContainerRegistry

RUNTIMES = ("python", "spark-py", "python-slim")
ENVIRONMENT_NAME = "inference-environment"
_WITH_ENVIRONMENT = "An environment says all of that itself"


@raises_azure_errors
class InferenceConfig(AzureClass):
    """How models are served. With `source_directory`, the entry script's path is relative to that folder.

    Args:
        entry_script: a Python file with `init()` and `run()`.
        runtime: `python`; older scripts give it with `conda_file`.
        conda_file: the packages, as a conda environment file. Relative to `source_directory`.
        extra_docker_file_steps: a file with lines of a Dockerfile; kept without effect.
        source_directory: a folder that the script needs as a whole.
        enable_gpu: kept without effect: replicas see the GPUs of their compute target.
        description: what the configuration is for.
        base_image: the image of the replicas, where podman or docker works; else a warning says that it is not used.
        base_image_registry: where that image lies.
        cuda_version: kept without effect.
        environment: an Environment, which takes the place of runtime, conda_file and the image.

    Raises:
        WebserviceException: the script is missing or is no Python module, or arguments contradict each other.
        UserErrorException: the script cannot be parsed.
    """

    def __init__(
        self,
        entry_script: str,
        runtime: Optional[str] = None,
        conda_file: Optional[str] = None,
        extra_docker_file_steps: Optional[str] = None,
        source_directory: Optional[str] = None,
        enable_gpu: Optional[bool] = None,
        description: Optional[str] = None,
        base_image: Optional[str] = None,
        base_image_registry: Optional[ContainerRegistry] = None,
        cuda_version: Optional[str] = None,
        environment: Optional[Environment] = None,
    ) -> None:
        self.entry_script = entry_script
        self.runtime = runtime
        self.conda_file = conda_file
        self.extra_docker_file_steps = extra_docker_file_steps
        self.source_directory = _folder(source_directory)
        self.enable_gpu = enable_gpu
        self.description = description
        self.base_image = base_image
        self.base_image_registry = base_image_registry
        self.cuda_version = cuda_version
        self.environment = environment
        self.validate_configuration()

    def validate_configuration(self) -> None:
        """Check it again, with the files as they are now.

        Raises:
            WebserviceException: it cannot be served like this.
        """
        check_texts(runtime=self.runtime, description=self.description, cuda_version=self.cuda_version)
        if self.environment is not None:
            self._check_environment()
        elif self.runtime is not None and self.runtime.lower() not in RUNTIMES:
            raise WebserviceException(
                f"There is no runtime {self.runtime!r}. Known: {', '.join(RUNTIMES)}; "
                "or leave it out and give an environment."
            )
        for name in ("conda_file", "extra_docker_file_steps"):
            given = getattr(self, name)
            if given is not None and not os.path.isfile(self.path_of(given)):
                raise WebserviceException(f"{name} `{given}` does not exist: looked for {self.path_of(given)}.")
        check_entry_script(self.entry_script, self.path_of(self.entry_script))

    def validation_script_content(self) -> None:
        """Raises UserErrorException: the entry script is no valid Python."""
        parse_script(self.path_of(self.entry_script))

    def path_of(self, given: Any) -> str:
        """Return the absolute path of a file that is named relative to the source folder."""
        path = os.path.expanduser(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else ""
        if not path:
            raise WebserviceException(f"entry_script must be the path of a Python file, found {given!r:.100}.")
        return os.path.abspath(os.path.join(self.source_directory or os.getcwd(), path))

    def make_environment(self) -> Environment:
        """Return the environment that is meant: the given one, or one of the conda file and the image."""
        if self.environment is not None:
            return self.environment
        environment = Environment(ENVIRONMENT_NAME)
        if self.conda_file is not None:
            environment = Environment.from_conda_specification(ENVIRONMENT_NAME, self.path_of(self.conda_file))
        environment.environment_variables = {}
        if self.base_image is not None:
            environment.docker.base_image = self.base_image
        if self.base_image_registry is not None:
            environment.docker.base_image_registry = self.base_image_registry
        return environment

    def to_plain(self) -> Definition:
        """Return what a service shows of it, and reads it from again: with the absolute path of the folder."""
        return {
            "entryScript": os.fspath(self.entry_script),
            "entryPath": self.path_of(self.entry_script),
            "sourceDirectory": self.source_directory,
            "runtime": self.runtime,
            "condaFile": self.conda_file,
            "extraDockerFileSteps": self.extra_docker_file_steps,
            "enableGpu": self.enable_gpu,
            "description": self.description,
            "baseImage": self.base_image,
            "cudaVersion": self.cuda_version,
        }

    def _check_environment(self) -> None:
        if not isinstance(self.environment, Environment):
            raise WebserviceException(f"environment must be an Environment, found {type(self.environment).__name__}.")
        beside = {
            "runtime": self.runtime,
            "conda_file": self.conda_file,
            "extra_docker_file_steps": self.extra_docker_file_steps,
            "enable_gpu": self.enable_gpu,
            "base_image": self.base_image,
            "base_image_registry": self.base_image_registry,
            "cuda_version": self.cuda_version,
        }
        given = [name for name, value in beside.items() if value]
        if given:
            raise WebserviceException(f"{', '.join(given)} cannot be given beside environment. {_WITH_ENVIRONMENT}.")
        dependencies = dependencies_of(self.environment)
        packages = list(dependencies.pip_packages) if dependencies is not None else []
        if packages and not any(line.lower().startswith("azureml-defaults") for line in packages):
            warn_once(
                f"The environment `{self.environment.name}` does not name azureml-defaults. Azure needs it there for "
                "services; Runyard serves without it."
            )


def check_entry_script(given: Any, path: str) -> None:
    """Check that `path`, which was given as `given`, is a module that can be imported.

    Raises:
        WebserviceException: it is missing, or its name is none of a module.
        UserErrorException: it cannot be parsed.
    """
    if not os.path.isfile(path):
        raise WebserviceException(f"The entry script `{given}` does not exist: looked for {path}.")
    name, ending = os.path.splitext(os.path.basename(path))
    if ending != ".py":
        raise WebserviceException(f"The entry script `{given}` is no Python file: its name must end with .py.")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise WebserviceException(
            f"The entry script `{given}` cannot be imported: {name!r} is no name of a Python module. "
            "Letters, digits and `_` make one."
        )
    parse_script(path)


def parse_script(path: str) -> None:
    """Raises UserErrorException: the file is no valid Python."""
    try:
        with open(path, "rb") as file:
            ast.parse(file.read(), filename=path)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UserErrorException(f"The entry script {path} is no valid Python{line}: {error}.") from None
    except OSError as error:
        raise UserErrorException(f"The entry script {path} cannot be read: {error.strerror}.") from None


def _folder(given: Any) -> Optional[str]:
    if given is None:
        return None
    if not isinstance(given, (str, os.PathLike)):
        raise WebserviceException(f"source_directory must be the path of a folder, found {given!r:.100}.")
    path = os.path.abspath(os.path.expanduser(os.fspath(given)))
    if not os.path.isdir(path):
        raise WebserviceException(f"The source directory `{given}` does not exist: looked for {path}.")
    return path
