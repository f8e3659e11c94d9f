"""Turn an `Environment` into the frozen `EnvironmentSpec` that a node builds.

Mistakes that can be seen before the run are raised here. `plan_container` adds the `ContainerSpec` when the environment
asks for a container.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional

from runyard.core.errors import SubmitRejected
from runyard.core.provided_packages import brought_by, split_provided
from runyard.core.specs import ContainerSpec, EnvironmentSpec
from runyard.sdk.config.texts import warn_once
from runyard.sdk.environments.conda_dependencies import CondaDependencies, conda_name, requirement_name
from runyard.sdk.environments.environment import AZURE_BASE_IMAGE, Environment
from runyard.sdk.environments.requirements_file import expand_lines, located
from runyard.sdk.environments.sources import context_dockerfile, dockerfile_text
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.run_config.run_configuration import DockerConfiguration


_VERSION = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")
_RANGE = re.compile(r"(?:(?:[<>=!~]=?=?)\s*[0-9]+(?:\.[0-9]+)*(?:\.\*)?,?)+")
_DEFAULT_PIP = ["azureml-defaults"]
_MANAGED_BY = ("pip", "python")  # what a conda list names beside packages


class _Wanted(NamedTuple):
    """What the environment asks for beyond a Python."""

    pip: List[str]
    options: List[str]
    constraints: List[str]
    conda: List[str]
    channels: List[str]
    python: Optional[str]

    @property
    def to_install(self) -> List[str]:
        """The packages that Runyard does not provide, and those that its stand-ins bring along."""
        own, left_out = split_provided(self.pip)
        own += brought_by(left_out, own, is_base=False)
        pip = [line for line in own if requirement_name(line) not in _MANAGED_BY]
        return [*pip, *(line for line in self.options if line.startswith("--editable")), *self.conda]


def plan_environment(
    environment: Any,
    *,
    docker: Optional[DockerConfiguration] = None,
    folder: Optional[str] = None,
    prefers_image: bool = False,
) -> EnvironmentSpec:
    """Return what the node needs to know. Requirements such as `.` are looked for in `folder`, then in the current one.

    `prefers_image`: an image that is named is used wherever a container runtime works, though nobody asked for one.

    Raises:
        SubmitRejected: the interpreter does not exist, or the environment contradicts itself.
        UserErrorException: a value that cannot be one.
    """
    if not isinstance(environment, Environment):
        raise UserErrorException(f"environment must be an Environment, found {type(environment).__name__}.")
    _refuse_spark(environment)
    wanted = _wanted(environment, folder or os.getcwd())
    if prefers_image and not environment.docker.enabled and names_image(environment):
        return _with_fallback(environment, wanted)
    if _wants_container(environment, docker):
        return plan_container(environment, docker, _spec(environment, wanted, "container", python=wanted.python))
    return _on_machine(environment, wanted)


def _with_fallback(environment: Environment, wanted: _Wanted) -> EnvironmentSpec:
    """Return the environment in its image, with what it is on a machine that starts no containers."""
    spec = plan_container(environment, None, _spec(environment, wanted, "container", python=wanted.python))
    try:
        plain = _on_machine(environment, wanted)
    except SubmitRejected:  # its interpreter is one of the image
        return spec
    assert spec.container is not None
    fallback = {"kind": plain.kind, "interpreter": plain.interpreter, "python_version": plain.python_version}
    return replace(spec, container=replace(spec.container, fallback=fallback))


def _on_machine(environment: Environment, wanted: _Wanted) -> EnvironmentSpec:
    if environment.python.user_managed_dependencies:
        _note_unused_packages(environment, wanted)
        interpreter = find_interpreter(environment.python.interpreter_path)
        return _spec(environment, wanted, "system", interpreter=interpreter, python=wanted.python)
    if not wanted.to_install and _is_own_python(wanted.python):
        return _spec(environment, wanted, "system", interpreter=find_interpreter(None), python=wanted.python)
    kind, python = "conda" if wanted.conda else "uv", wanted.python or own_python()
    if kind == "conda" and _RANGE.fullmatch(python) and _is_own_python(python):
        python = own_python()  # a solver would take the newest that fits
    return _spec(environment, wanted, kind, interpreter=find_interpreter(None), python=python)


def find_interpreter(path: Optional[str]) -> str:
    """Return the interpreter's absolute path; `python` means the one that submits.

    Raises:
        SubmitRejected: there is none.
    """
    if path in (None, "", "python"):
        if not sys.executable:
            raise SubmitRejected(
                "This Python does not know its own path.", hint="Set env.python.interpreter_path = '/path/to/python'."
            )
        return sys.executable
    given = os.path.expanduser(str(path))
    found = shutil.which(given) if os.sep not in given else (os.path.abspath(given) if _is_program(given) else None)
    if found is None:
        raise SubmitRejected(
            f"The interpreter `{path}` does not exist.",
            why="It is not a program that can be run here (python.interpreter_path).",
            hint=f"`which python3` shows one; this script runs on {sys.executable}.",
        )
    return os.path.abspath(found)


def dependencies_of(environment: Environment) -> Optional[CondaDependencies]:
    """Return the packages that are meant: those set, else those of `conda_dependencies_file`.

    Raises:
        UserErrorException: they are of another type, or that file is missing.
    """
    found: Any = environment.python.conda_dependencies
    if found is not None and not isinstance(found, CondaDependencies):
        raise UserErrorException(
            f"env.python.conda_dependencies must be a CondaDependencies, found {type(found).__name__}.\n"
            "Make one: CondaDependencies.create(pip_packages=['numpy'])."
        )
    file = environment.python.conda_dependencies_file
    if file and (found is None or found._is_default):
        return CondaDependencies(file)
    return found


def names_image(environment: Environment) -> bool:
    """Whether it says in which image a container would run; Azure's base images say nothing."""
    docker = environment.docker
    named = bool(docker.base_image) and AZURE_BASE_IMAGE.fullmatch(str(docker.base_image)) is None
    return named or bool(docker.base_dockerfile) or docker.build_context is not None


def variable_texts(variables: Optional[Mapping[str, Any]], what: str) -> Dict[str, str]:
    """Return environment variables as texts.

    Raises:
        UserErrorException: a name or value that no process can have.
    """
    found: Dict[str, str] = {}
    for name, value in (variables or {}).items():
        text = value if isinstance(value, str) else str(value)
        if not isinstance(name, str) or not name or "=" in name or "\0" in name + text:
            raise UserErrorException(f"{what} holds the variable {name!r}={text!r:.50}, which no process can have.")
        found[name] = text
    return found


def _spec(
    environment: Environment,
    wanted: _Wanted,
    kind: str,
    *,
    interpreter: Optional[str] = None,
    python: Optional[str] = None,
) -> EnvironmentSpec:
    pip = [] if kind == "system" and wanted.pip == _DEFAULT_PIP else wanted.pip  # what every environment has by itself
    return EnvironmentSpec(
        name=environment.name,
        version=environment.version,
        kind=kind,
        interpreter=interpreter,
        pip_packages=pip,
        pip_options=wanted.options,
        pip_constraints=wanted.constraints,
        conda_packages=wanted.conda,
        conda_channels=wanted.channels,
        python_version=python,
        variables=variable_texts(environment.environment_variables, "Environment.environment_variables"),
        definition=_definition(environment),
    )


def _wanted(environment: Environment, folder: str) -> _Wanted:
    dependencies = dependencies_of(environment)
    if dependencies is None:
        return _Wanted([], [], [], [], [], None)
    lines = [*dependencies.pip_packages, *dependencies.pip_options]
    place = f"The pip packages of environment `{environment.name}`"
    lines = [located(line, [folder, os.getcwd()], place) for line in expand_lines(lines, os.getcwd(), place)]
    limits = [line for line in lines if line.startswith("--constraint ")]
    return _Wanted(
        pip=[line for line in lines if not line.startswith("-")],
        options=[line for line in lines if line.startswith("-") and line not in limits],
        constraints=[line.partition(" ")[2] for line in limits],
        conda=[line for line in dependencies.conda_packages if conda_name(line) not in _MANAGED_BY],
        channels=list(dependencies.conda_channels),
        python=_checked_python(environment.name, dependencies._wanted_python),
    )


def _definition(environment: Environment) -> Dict[str, Any]:
    """Return Azure's form, with the packages that are really meant."""
    found = environment.to_plain()
    dependencies = dependencies_of(environment)
    found["python"]["condaDependencies"] = dependencies.as_dict() if dependencies is not None else None
    return found


def _checked_python(name: str, version: Optional[str]) -> Optional[str]:
    if version is None:
        return None
    if _RANGE.fullmatch(version):
        return version
    if not _VERSION.fullmatch(version):
        raise SubmitRejected(
            f"Environment `{name}` asks for Python {version!r}.",
            why="That is no version of Python.",
            hint=f"Write two or three numbers: set_python_version({own_python()!r}).",
        )
    if int(version.split(".")[0]) < 3:  # an older Python 3 becomes the nearest one that can be had
        raise SubmitRejected(
            f"Environment `{name}` asks for Python {version}.",
            why="Code for Python 2 does not run on Python 3, and runs need Python 3.",
            hint=f"Ask for a newer one, set_python_version({own_python()!r}), or leave `python=` out.",
        )
    return version


def own_python() -> str:
    return "{}.{}".format(*sys.version_info[:2])


def _is_own_python(version: Optional[str]) -> bool:
    own = "{}.{}.{}".format(*sys.version_info[:3])
    if version is not None and _RANGE.fullmatch(version):
        from runyard.core.formats.python_range import fits  # few environments have a range

        return fits(own, version)
    return version is None or own == version or own.startswith(version + ".")


def _refuse_spark(environment: Environment) -> None:
    if environment.spark.packages or environment.spark.repositories:
        raise SubmitRejected(
            f"Environment `{environment.name}` asks for Spark packages (env.spark).",
            why="Runyard starts no Spark: it runs Python scripts and shell commands.",
            hint="Leave env.spark empty; for Spark in one process add the pip package `pyspark`.",
        )


def _wants_container(environment: Environment, docker: Optional[DockerConfiguration]) -> bool:
    """Whether a container is asked for, and an image named that it could have; one without the other is said."""
    is_asked = bool(environment.docker.enabled or (docker is not None and docker.use_docker))
    if is_asked and not names_image(environment):
        warn_once(
            f"Environment `{environment.name}` names no image of yours (env.docker.base_image), so the run needs no "
            "container: its packages are installed on the machine itself."
        )
    elif not is_asked and names_image(environment):
        image = environment.docker.base_image if environment.docker.build_context is None else None
        what = f"image {image}" if image else "Dockerfile"
        warn_once(
            f"The {what} of environment `{environment.name}` is not used: nobody asked for a container. Pass "
            "docker_runtime_config=DockerConfiguration(use_docker=True) to ScriptRunConfig to run in one."
        )
    return is_asked and names_image(environment)


def _note_unused_packages(environment: Environment, wanted: _Wanted) -> None:
    if wanted.to_install:
        shown = ", ".join(wanted.to_install[:5]) + (" …" if len(wanted.to_install) > 5 else "")
        warn_once(
            f"Environment `{environment.name}` names packages ({shown}) that are not installed: with "
            "user_managed_dependencies = True its Python is yours. Set it to False to have them installed."
        )


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def plan_container(
    environment: Environment, docker: Optional[DockerConfiguration], spec: EnvironmentSpec
) -> EnvironmentSpec:
    """Return `spec` in a container. Packages go into the image, unless its Python is the user's own.

    Raises:
        SubmitRejected: the settings contradict each other.
    """
    section = environment.docker
    dockerfile = dockerfile_text(section.base_dockerfile) if section.base_dockerfile else ""
    if section.build_context is not None:
        dockerfile = context_dockerfile(section.build_context)
    registry = section.base_image_registry
    runtime: Any = docker if docker is not None and docker.use_docker else section
    container = ContainerSpec(
        image="" if dockerfile else str(section.base_image or ""),
        dockerfile=dockerfile,
        registry=registry.address or "",
        username=registry.username or "",
        password=registry.password or "",
        shared_volumes=bool(runtime.shared_volumes),
        shm_size=_shm_size(runtime.shm_size),
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


def _shm_size(value: Any) -> str:
    if value is None or isinstance(value, (str, int)):
        return str(value or "")
    raise UserErrorException(f"docker.shm_size must be a text such as '2g', found {value!r:.100}.")


def _words(arguments: Any) -> List[str]:
    if isinstance(arguments, str) or not all(isinstance(word, str) for word in arguments or []):
        raise UserErrorException(f"docker.arguments must be a list of texts, found {arguments!r:.100}.")
    return list(arguments or [])
