"""Environments from what a project already has: requirements, conda files and environments, images, Dockerfiles."""

from __future__ import annotations

import os
import re
import shutil
from typing import Optional

from runyard.sdk.config.texts import warn
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import ContainerRegistry, Environment
from runyard.sdk.environments.requirements_file import read_requirements
from runyard.sdk.exceptions import UserErrorException

_EXPORT_TIMEOUT_S = 120.0
_INSTRUCTION = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:FROM|ARG)\s", re.IGNORECASE)


def from_pip(name: str, path: str, pip_version: Optional[str] = None) -> Environment:
    environment = Environment(name)
    made = CondaDependencies.create(pip_packages=read_requirements(os.fspath(path)))
    if pip_version is not None:
        made.add_conda_package(f"pip={pip_version}")
    environment.python.conda_dependencies = made
    return environment


def from_conda(name: str, path: str) -> Environment:
    environment = Environment(name)
    environment.python.conda_dependencies = CondaDependencies(path)
    return environment


def from_conda_environment(name: str, conda_environment: str) -> Optional[Environment]:
    conda = os.environ.get("CONDA_EXE") or shutil.which("conda") or shutil.which("mamba")
    if not conda or shutil.which(conda) is None:
        warn(f"No conda was found here, so there is no environment {conda_environment!r} to read.")
        return None
    environment = Environment(name)
    environment.python.conda_dependencies = CondaDependencies(_underlying_structure=_export(conda, conda_environment))
    return environment


def from_image(
    name: str,
    image: str,
    registry: Optional[ContainerRegistry] = None,
    conda_specification: Optional[str] = None,
    pip_requirements: Optional[str] = None,
) -> Environment:
    if not isinstance(image, str) or not image.strip():
        raise UserErrorException(f"image must be the name of an image, found {image!r}.")
    environment = _with_packages(name, conda_specification, pip_requirements)
    environment.docker.base_image = image.strip()
    if registry is not None:
        if not isinstance(registry, ContainerRegistry):
            raise UserErrorException(
                f"container_registry must be a ContainerRegistry, found {type(registry).__name__}."
            )
        environment.docker.base_image_registry = registry
    return environment


def from_dockerfile(
    name: str, dockerfile: str, conda_specification: Optional[str] = None, pip_requirements: Optional[str] = None
) -> Environment:
    environment = _with_packages(name, conda_specification, pip_requirements)
    environment.docker.base_dockerfile = dockerfile_text(dockerfile)
    return environment


def dockerfile_text(dockerfile: str) -> str:
    """Return the text of a Dockerfile that is given as a path or as its text.

    Raises:
        UserErrorException: it is neither.
    """
    given = os.fspath(dockerfile)
    if "\n" not in given and os.path.isfile(os.path.expanduser(given)):
        with open(os.path.expanduser(given), encoding="utf-8") as file:
            given = file.read()
    if not _INSTRUCTION.match(given):
        what = f"the file {dockerfile!r:.200} does not exist" if "\n" not in given else "it does not begin with FROM"
        raise UserErrorException(f"A Dockerfile is needed, as a path or as its text: {what} (looked in {os.getcwd()}).")
    return given


def _with_packages(name: str, conda_specification: Optional[str], pip_requirements: Optional[str]) -> Environment:
    if conda_specification is not None and pip_requirements is not None:
        raise UserErrorException(
            "Both conda_specification and pip_requirements are given. Give one of them; a conda file may have a "
            "`pip:` section."
        )
    if conda_specification is not None:
        return from_conda(name, conda_specification)
    if pip_requirements is not None:
        return from_pip(name, pip_requirements)
    environment = Environment(name)
    environment.python.user_managed_dependencies = True
    return environment


def _export(conda: str, conda_environment: str) -> object:
    import subprocess  # only here
    import tempfile

    from runyard.sdk.config.files import read_yaml

    argv = [conda, "env", "export", "--no-builds", "--name", str(conda_environment)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_EXPORT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserErrorException(f"`{' '.join(argv)}` did not work: {error}.") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise UserErrorException(
            f"conda could not export the environment {conda_environment!r}:\n{said}\n`{conda} env list` shows those "
            "there are."
        )
    with tempfile.NamedTemporaryFile(suffix=".yml") as file:
        file.write(done.stdout)
        file.flush()
        return read_yaml(file.name)
