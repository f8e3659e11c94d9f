"""From an estimator's parameters to the `Environment` and the distribution of its runs.

The releases of each framework, by version and Python, are in `frameworks.json`. `make_environment` puts packages, image
and framework together. `set_distribution` writes the number of processes into the run configuration.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypedDict

from runyard.core.machine.gpus import list_gpus
from runyard.sdk.config.texts import warn_once
from runyard.sdk.environments.conda_dependencies import CondaDependencies, requirement_name
from runyard.sdk.environments.environment import ContainerRegistry, Environment
from runyard.sdk.environments.requirements_file import read_requirements
from runyard.sdk.errors import training_error
from runyard.sdk.run_config.distribution import Gloo, Mpi, Nccl, ParameterServer
from runyard.sdk.run_config.run_configuration import (
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
)

HOROVOD = "horovod==0.28.1"
_OLDEST = (3, 8)  # Python of a run


class FrameworkRelease(TypedDict, total=False):
    cpu: List[str]  # packages
    gpu: List[str]  # where they differ
    pythons: List[str]  # the oldest and the newest that it can be had on; not there: on none
    horovod: bool  # it works with it


class FrameworkEntry(TypedDict):
    """A framework in `frameworks.json`."""

    aliases: List[str]  # names of packages that are the framework
    releases: Dict[str, FrameworkRelease]  # oldest first


_found: Optional[Dict[str, FrameworkEntry]] = None


class Release(NamedTuple):
    framework: str
    version: str  # as frameworks.json and `framework_version` name it
    packages: List[str]
    newest_python: str

    @property
    def exact(self) -> str:
        """The version that is installed."""
        return self.packages[0].partition("==")[2]


def supported_versions(framework: str) -> List[str]:
    return list(_framework(framework)["releases"])


def find_release(
    framework: str, asked: Optional[str], *, python: Optional[str], gpu: bool, horovod: bool
) -> Optional[Release]:
    """Return the release that was asked for when it can be had on `python` (None: on any), else the next one that can:
    a later one, else the newest. Without a version the newest.
    """
    releases = _framework(framework)["releases"]
    fitting = [version for version, facts in releases.items() if _fits(facts, python, horovod)]
    if not fitting:
        return None
    known = list(releases)
    later = [version for version in fitting if asked is not None and known.index(version) >= known.index(asked)]
    version = later[0] if later else fitting[-1]
    facts = releases[version]
    packages = list(facts.get("gpu", facts["cpu"]) if gpu else facts["cpu"])
    return Release(framework, version, packages + ([HOROVOD] if horovod else []), facts["pythons"][1])


def without_named(framework: str, packages: Sequence[str], named: Sequence[str]) -> List[str]:
    """Return those packages that a user does not name himself: what he says about a package decides."""
    names = {requirement_name(line) for line in named}
    aliases = set(_framework(framework)["aliases"])
    taken = names | (aliases if names & aliases else set())
    return [package for package in packages if requirement_name(package) not in taken]


def named_version(framework: str, packages: Sequence[str]) -> str:
    """Return the version that a list of packages pins; the newest known one when it pins none."""
    aliases = _framework(framework)["aliases"]
    pins = [line.partition("==")[2] for line in packages if requirement_name(line) in aliases]
    return next((pin for pin in pins if pin), supported_versions(framework)[-1])


def _fits(facts: FrameworkRelease, python: Optional[str], horovod: bool) -> bool:
    if "pythons" not in facts or (horovod and not facts.get("horovod")):
        return False
    oldest, newest = (_numbers(version) for version in facts["pythons"])
    return python is None or oldest <= _numbers(python) <= newest


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _framework(name: str) -> FrameworkEntry:
    global _found
    if _found is None:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frameworks.json")
        with open(path, encoding="utf-8") as file:
            _found = json.load(file)
    assert _found is not None
    return _found[name]


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
    if python is not None and _numbers(python) < _OLDEST:
        python = "{}.{}".format(*_OLDEST)  # the nearest that the run can get
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


_BY_BACKEND = {"mpi": "IntelMpi", "ps": "ParameterServer", "gloo": "gloo", "nccl": "nccl"}
_FRAMEWORKS = {"mpi": "Python", "ps": "TensorFlow", "gloo": "PyTorch", "nccl": "PyTorch"}
_BY_TRAINING = {
    Mpi: ("mpi", "Mpi", "Python"),
    MpiConfiguration: ("mpi", "IntelMpi", "Python"),
    ParameterServer: ("ps", "ParameterServer", "tensorflow"),
    TensorflowConfiguration: ("ps", "ParameterServer", "tensorflow"),
    Gloo: ("gloo", "Gloo", "pytorch"),
    Nccl: ("nccl", "Nccl", "pytorch"),
}


def backend_of(values: Mapping[str, Any]) -> str:
    """Return mpi, ps, gloo or nccl; "" for one process."""
    training = values.get("distributed_training")
    if training is not None:
        return next(backend for cls, (backend, _, _) in _BY_TRAINING.items() if isinstance(training, cls))
    return values.get("distributed_backend") or ""


def set_distribution(config: RunConfiguration, values: Mapping[str, Any]) -> None:
    """Set framework, communicator and counts. The words of `distributed_training` win over the estimator's own."""
    backend = backend_of(values)
    if not backend:
        return
    training = values.get("distributed_training")
    config.communicator, config.framework = _BY_BACKEND[backend], _FRAMEWORKS[backend]
    for cls, (_, communicator, framework) in _BY_TRAINING.items():
        if isinstance(training, cls):
            config.communicator, config.framework = communicator, framework
    config.node_count = max(values["node_count"], getattr(training, "node_count", 1))
    per_node = getattr(training, "process_count_per_node", values["process_count_per_node"])
    if backend == "mpi":
        config.mpi = MpiConfiguration(per_node, config.node_count)
    elif backend == "ps":
        config.tensorflow = _tensorflow(training, values)
    else:
        config.pytorch = PyTorchConfiguration(backend, per_node * config.node_count, config.node_count)


def processes_per_node(values: Mapping[str, Any]) -> int:
    training = values.get("distributed_training")
    return int(getattr(training, "process_count_per_node", values.get("process_count_per_node", 1)))


def _tensorflow(training: Any, values: Mapping[str, Any]) -> TensorflowConfiguration:
    source = {name: getattr(training, name, values[name]) for name in ("worker_count", "parameter_server_count")}
    return TensorflowConfiguration(**source)
