"""An estimator's packages, image and framework → the Environment of its runs."""

from __future__ import annotations

import sys
from typing import Any, List, Mapping, Optional

from runyard.core.machine.gpus import list_gpus
from runyard.sdk.config.notices import warn_once
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import ContainerRegistry, Environment
from runyard.sdk.environments.requirements_file import read_requirements
from runyard.sdk.estimators.frameworks import Release, find_release, supported_versions, without_named
from runyard.sdk.training_errors import training_error


def make_environment(values: Mapping[str, Any], *, framework: Optional[str], horovod: bool) -> Environment:
    """Return the environment that `environment_definition` is, or that the other parameters describe.

    Raises:
        TrainingException: a framework version that is not known, or that no Python asked for can have.
    """
    definition = values["environment_definition"]
    if definition is not None:
        return definition  # type: ignore[no-any-return]  # estimator_checks has seen that it is one
    environment = Environment(framework.lower() if framework else "estimator")
    environment.python.user_managed_dependencies = bool(values["user_managed"])
    environment.python.conda_dependencies = _dependencies(values)
    _set_image(environment, values)
    version = values.get("framework_version")
    if framework is not None:
        _check_version(framework, version)
        if not values["user_managed"]:
            release = _add_framework(environment, framework, version, gpu=bool(values.get("use_gpu")), horovod=horovod)
            environment.name = f"{framework.lower()}-{release.exact}"
    return environment


def _dependencies(values: Mapping[str, Any]) -> CondaDependencies:
    if values["conda_dependencies_file"]:
        return CondaDependencies(values["conda_dependencies_file"])
    made = CondaDependencies()
    for package in _listed("conda_packages", values["conda_packages"]):
        made.add_conda_package(package)
    for package in _pip_lines(values):
        if package.startswith("-"):
            made.set_pip_option(package)
        else:
            made.add_pip_package(package)
    return made


def _pip_lines(values: Mapping[str, Any]) -> List[str]:
    file = values["pip_requirements_file"]
    return [*(read_requirements(file) if file else []), *_listed("pip_packages", values["pip_packages"])]


def _listed(name: str, packages: Any) -> List[str]:
    if packages is None:
        return []
    if isinstance(packages, str) or not isinstance(packages, (list, tuple)):
        raise training_error(f"{name} is {packages!r:.100}.", why="It must be a list.", hint=f"{name}=['scikit-learn']")
    return list(packages)


def _set_image(environment: Environment, values: Mapping[str, Any]) -> None:
    docker = environment.docker
    docker.shm_size = values["shm_size"] or docker.shm_size
    image = values["custom_docker_image"]
    if not image:
        return
    docker.enabled, docker.base_image = True, str(image)
    registry = values["image_registry_details"]
    if isinstance(registry, ContainerRegistry):
        docker.base_image_registry = registry
    elif registry is not None:
        raise training_error(
            f"image_registry_details must be a ContainerRegistry, found {type(registry).__name__}.",
            hint="from azureml.core.container_registry import ContainerRegistry",
        )


def _check_version(framework: str, version: Optional[str]) -> None:
    known = supported_versions(framework)
    if version is not None and version not in known:
        raise training_error(
            f"{framework} {version!r} is not among the versions that this estimator knows.",
            why=f"Supported: {', '.join(known)}.",
            hint="Leave framework_version out for the newest, or name the exact package in pip_packages.",
        )


def _add_framework(
    environment: Environment, framework: str, version: Optional[str], *, gpu: bool, horovod: bool
) -> Release:
    dependencies = environment.python.conda_dependencies
    python = dependencies._wanted_python
    own = "{}.{}".format(*sys.version_info[:2])
    use_gpu = gpu and bool(list_gpus())
    release = find_release(framework, version, python=python or own, gpu=use_gpu, horovod=horovod)
    if release is None and python is None:
        release = find_release(framework, version, python=None, gpu=use_gpu, horovod=horovod)
        assert release is not None
        dependencies.set_python_version(release.newest_python)
        warn_once(f"{framework} has no packages for Python {own}; the run gets Python {release.newest_python}.")
    if release is None:
        raise training_error(
            f"{framework}{' with Horovod' if horovod else ''} cannot be had on Python {python}.",
            why="There are no packages for it.",
            hint="Leave `python=` out of conda_packages, or name another one.",
        )
    _tell_choice(release, version, python or own, horovod)
    named = [*dependencies.pip_packages, *dependencies.conda_packages]
    for package in without_named(framework, release.packages, named):
        dependencies.add_pip_package(package)
    return release


def _tell_choice(release: Release, asked: Optional[str], python: str, horovod: bool) -> None:
    if asked is None or asked == release.version:
        return
    why = f"has no packages for Python {python}"
    if horovod:
        why += ", or none that Horovod can be built for"
    warn_once(f"{release.framework} {asked} {why}: {release.framework} {release.exact} is installed instead.")
