"""Environments from what a project already has: requirements, conda files and environments, images, Dockerfiles."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from runyard.core.errors import SubmitRejected
from runyard.sdk.config.texts import check_texts, warn
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import ContainerRegistry, DockerBuildContext, Environment
from runyard.sdk.environments.requirements_file import read_requirements
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

_EXPORT_TIMEOUT_S = 120.0
_WHEELS = "azureml-private-packages"
_NEEDS_FILES = re.compile(r"\s*(?:COPY\s+(?!--from)|ADD\s+(?!(?:--\S+\s+)*https?://))", re.IGNORECASE)
_INSTRUCTION = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:FROM|ARG)\s", re.IGNORECASE)


def from_pip(name: str, path: str, pip_version: Optional[str] = None) -> Environment:
    environment = Environment(name)
    made = CondaDependencies.create(pip_packages=read_requirements(os.fspath(path)))
    check_texts(pip_version=pip_version)
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


def from_build_context(name: str, context: DockerBuildContext) -> Environment:
    if not isinstance(context, DockerBuildContext):
        raise UserErrorException(
            f"docker_build_context must be a DockerBuildContext, found {type(context).__name__}.\n"
            "Make one: DockerBuildContext.from_local_directory(ws, 'folder')."
        )
    environment = _with_packages(name, None, None)
    environment.docker.base_image = None
    environment.docker.build_context = context
    return environment


def context_dockerfile(context: Any) -> str:
    """Return the text of the Dockerfile in a build context: a DockerBuildContext, its plain form, or a folder's path.

    Raises:
        SubmitRejected: it is not a folder of this machine, or its Dockerfile needs the other files of the folder.
    """
    location, name = context, "Dockerfile"
    if isinstance(context, DockerBuildContext):
        location, name = context.location, context.dockerfile_path
    elif isinstance(context, dict):
        location, name = context.get("location"), context.get("dockerfilePath") or name
    folder = os.path.expanduser(str(location))
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        is_address = "://" in folder or folder.startswith("git@")
        raise SubmitRejected(
            f"The build context {folder} (docker.build_context) cannot be used.",
            why="Only a folder of this machine is read." if is_address else f"There is no file {path}.",
            hint="Get it onto this machine (git clone …), then DockerBuildContext.from_local_directory(ws, 'folder').",
        )
    text = dockerfile_text(path)
    needed = [line.strip() for line in text.splitlines() if _NEEDS_FILES.match(line)]
    if needed:
        raise SubmitRejected(
            f"The Dockerfile of the build context {folder} copies files of that folder: `{needed[0]}`.",
            why="Only a Dockerfile's text reaches the node.",
            hint="Build the image yourself (`podman build`) and name it in docker.base_image, or put the files into "
            "source_directory, which every run gets.",
        )
    return text


def store_wheel(workspace: Workspace, file_path: str, *, exist_ok: bool) -> str:
    path = os.path.abspath(os.path.expanduser(os.fspath(file_path)))
    name = os.path.basename(path)
    if not os.path.isfile(path) or not name.endswith(".whl"):
        raise UserErrorException(f"file_path must be a wheel (.whl), found {file_path!r} in {os.getcwd()}.")
    store = workspace.get_default_datastore()
    if store.datastore_type != "Folder":
        raise UserErrorException(
            f"The default datastore `{store.name}` is not a folder, so that no build can install {name} from there.\n"
            "Put the wheel on an index of yours: conda_dependencies.set_pip_option('--extra-index-url …')."
        )
    kept = os.path.join(store.container_name, _WHEELS, name)
    if os.path.exists(kept) and not exist_ok:
        raise UserErrorException(f"The wheel {name} is in the workspace already. Pass exist_ok=True to use that one.")
    if not os.path.exists(kept):
        store.upload_files([path], target_path=_WHEELS, show_progress=False)
    return Path(kept).as_uri()


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
        raise UserErrorException(f"`{' '.join(argv)}` did not work: {error}.") from None
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
