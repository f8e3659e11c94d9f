"""The container that an environment asks for → the ContainerSpec that a node starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, List, Optional

from runyard.core.errors import SubmitRejected
from runyard.core.specs import ContainerSpec, EnvironmentSpec
from runyard.sdk.environments.sources import dockerfile_text
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.run_config.run_configuration import DockerConfiguration


def plan_container(
    environment: Environment, docker: Optional[DockerConfiguration], spec: EnvironmentSpec
) -> EnvironmentSpec:
    """Return `spec` in a container. Packages go into the image, unless its Python is the user's own.

    Raises:
        SubmitRejected: the settings contradict each other.
    """
    section = environment.docker
    if section.build_context is not None:
        raise SubmitRejected(
            f"Environment `{environment.name}` builds its image from a folder (docker.build_context).",
            why="Only a Dockerfile's text reaches the node.",
            hint="Use Environment.from_dockerfile(name, 'Dockerfile') with a Dockerfile that needs no other file, or "
            "build the image yourself and name it in docker.base_image.",
        )
    registry = section.base_image_registry
    runtime: Any = docker if docker is not None and docker.use_docker else section
    container = ContainerSpec(
        image=str(section.base_image or ""),
        dockerfile=dockerfile_text(section.base_dockerfile) if section.base_dockerfile else "",
        registry=registry.address or "",
        username=registry.username or "",
        password=registry.password or "",
        shared_volumes=bool(runtime.shared_volumes),
        shm_size=str(runtime.shm_size or ""),
        arguments=_words(runtime.arguments),
    )
    if not environment.python.user_managed_dependencies:
        return replace(spec, container=container)
    interpreter = environment.python.interpreter_path or "python"
    return replace(
        spec,
        container=container,
        interpreter=interpreter,
        pip_packages=[],
        pip_options=[],
        pip_constraints=[],
        conda_packages=[],
        conda_channels=[],
    )


def _words(arguments: Any) -> List[str]:
    if isinstance(arguments, str) or not all(isinstance(word, str) for word in arguments or []):
        raise UserErrorException(f"docker.arguments must be a list of texts, found {arguments!r:.100}.")
    return list(arguments or [])
