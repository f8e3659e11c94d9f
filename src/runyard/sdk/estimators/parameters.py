"""The parameters of estimators: names, defaults, old spellings, and the rules between them.

`check_parameters` refuses parameters that contradict each other when the estimator is made. The functions at the end
turn `script_params` into the arguments of the script.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.errors import InvalidArgument
from runyard.sdk.environments.environment import Environment
from runyard.sdk.errors import azure_error, training_error
from runyard.sdk.run_config.distribution import Gloo, Mpi, Nccl, ParameterServer
from runyard.sdk.run_config.run_configuration import MpiConfiguration, TensorflowConfiguration

_COMMON: Dict[str, Any] = {
    "compute_target": None,
    "vm_size": None,
    "vm_priority": None,
    "entry_script": None,
    "script_params": None,
    "use_docker": True,
    "custom_docker_image": None,
    "image_registry_details": None,
    "user_managed": False,
    "conda_packages": None,
    "pip_packages": None,
    "conda_dependencies_file": None,
    "pip_requirements_file": None,
    "environment_variables": None,
    "environment_definition": None,
    "inputs": None,
    "shm_size": None,
    "resume_from": None,
    "max_run_duration_seconds": None,
}
_ON_NODES: Dict[str, Any] = {
    "node_count": 1,
    "process_count_per_node": 1,
    "distributed_backend": None,
    "distributed_training": None,
    "use_gpu": False,
    "source_directory_data_store": None,
}
_FRAMEWORK: Dict[str, Any] = {"framework_version": None}

ESTIMATOR = {**_COMMON, **_ON_NODES}
PYTORCH = CHAINER = {**ESTIMATOR, **_FRAMEWORK}
TENSORFLOW = {**PYTORCH, "worker_count": 1, "parameter_server_count": 1}
SKLEARN = {**_COMMON, **_FRAMEWORK}

OLD_NAMES = {
    "custom_docker_base_image": "custom_docker_image",
    "conda_dependencies_file_path": "conda_dependencies_file",
    "pip_requirements_file_path": "pip_requirements_file",
    "environment": "environment_definition",
}
_PACKAGES = ("pip_packages", "conda_packages", "pip_requirements_file", "conda_dependencies_file")
_IMAGES = ("custom_docker_image", "image_registry_details")
_TEXTS = ("vm_size", "vm_priority", "entry_script", "custom_docker_image", "shm_size")
_COUNTS = ("node_count", "process_count_per_node", "worker_count", "parameter_server_count")
_TRAININGS = {
    "mpi": (Mpi, MpiConfiguration),
    "ps": (ParameterServer, TensorflowConfiguration),
    "gloo": (Gloo,),
    "nccl": (Nccl,),
}
_EXAMPLE = "script_params={'--batch-size': 50, '--verbose': ''}"


def read_parameters(owner: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return all parameters with their defaults and without old spellings.

    Raises:
        TypeError: one that this estimator does not have, or both spellings of one.
    """
    found = dict(known)
    for name, value in given.items():
        new = OLD_NAMES.get(name, name)
        if new not in known:
            from runyard.sdk.config.keywords import unknown_keyword  # only to say which one was meant

            raise unknown_keyword(owner, name, ["source_directory", *known])
        if new != name and new in given:
            raise TypeError(f"{owner}() got both {new!r} and its old spelling {name!r}. Give {new!r} alone.")
        found[new] = value
    return found


def signature_of(known: Mapping[str, Any]) -> Any:
    """Return what `help()` and editors show."""
    from inspect import Parameter, Signature  # for people

    first = Parameter("source_directory", Parameter.POSITIONAL_OR_KEYWORD, default=None)
    older = {old: None for old, new in OLD_NAMES.items() if new in known}
    rest = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in {**known, **older}.items()]
    return Signature([first, *rest])


def given_names(values: Mapping[str, Any], names: Sequence[str]) -> Tuple[str, ...]:
    """Return those of `names` that a user set."""
    return tuple(name for name in names if values.get(name))


def check_parameters(owner: str, values: Mapping[str, Any], backends: Sequence[str]) -> None:
    """Raises TrainingException, or UserErrorException for packages beside a Python of the user's own."""
    for name in _TEXTS:
        if values[name] is not None and not isinstance(values[name], str):
            raise training_error(f"{name} is {values[name]!r:.100}.", why="It must be a text.")
    _check_target(values)
    _check_environment(values)
    for name in _COUNTS:
        if name in values:
            _check_count(name, values[name])
    _check_script(values)
    _check_distribution(owner, values, backends)


def _check_target(values: Mapping[str, Any]) -> None:
    if values["compute_target"] is None and not values["vm_size"]:
        raise training_error(
            "Neither compute_target nor vm_size is given.",
            why="An estimator must know where it runs.",
            hint="compute_target='local' is this machine.",
        )


def _check_environment(values: Mapping[str, Any]) -> None:
    definition = values["environment_definition"]
    if definition is not None:
        if not isinstance(definition, Environment):
            raise training_error(f"environment_definition must be an Environment, found {type(definition).__name__}.")
        beside = given_names(values, (*_PACKAGES, *_IMAGES, "use_gpu", "user_managed", "shm_size"))
        if beside:
            raise _beside("environment_definition", beside, "The environment says all of that itself.")
    if values["conda_dependencies_file"]:
        beside = given_names(values, ("pip_packages", "conda_packages", "pip_requirements_file"))
        if beside:
            raise _beside("conda_dependencies_file", beside, "The file names the packages.")
    if values["user_managed"]:
        beside = given_names(values, _PACKAGES)
        if beside:
            raise azure_error(_contradiction("user_managed=True", beside, "You manage that Python's packages."))
    if not values["use_docker"]:
        beside = given_names(values, _IMAGES)
        if beside:
            raise _beside("use_docker=False", beside, "An image is used in a container only.")


def _check_count(name: str, value: Any) -> None:
    least = 0 if name == "parameter_server_count" else 1
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise training_error(
            f"{name} is {value!r}.", why=f"It must be a whole number, {least} or more.", hint=f"{name}={max(1, least)}"
        )


def _check_script(values: Mapping[str, Any]) -> None:
    script = values["entry_script"]
    if isinstance(script, str) and script.endswith(".ipynb"):
        raise training_error(
            f"The entry_script {script!r} is a notebook.",
            why="Runs start Python scripts.",
            hint=f"`jupyter nbconvert --to script {script}` makes one.",
        )


def _check_distribution(owner: str, values: Mapping[str, Any], backends: Sequence[str]) -> None:
    backend, training = values.get("distributed_backend"), values.get("distributed_training")
    if backend is not None and training is not None:
        raise _beside("distributed_training", ["distributed_backend"], "Both say how the processes work together.")
    if backend is not None and backend not in backends:
        raise training_error(
            f"{owner} does not know the distributed_backend {backend!r}.", why=f"Supported: {_words(backends)}."
        )
    fitting = tuple(cls for name in backends for cls in _TRAININGS[name])
    if training is not None and not isinstance(training, fitting):
        raise training_error(
            f"{owner} does not take a {type(training).__name__} as distributed_training.",
            why=f"Supported: {', '.join(cls.__name__ for cls in fitting)}.",
        )
    if backend is None and training is None:
        _check_single(values, backends)


def _check_single(values: Mapping[str, Any], backends: Sequence[str]) -> None:
    many = [f"{name}={values[name]}" for name in _COUNTS if isinstance(values.get(name), int) and values[name] > 1]
    if many:
        raise training_error(
            f"{', '.join(many)} without a distributed_backend.",
            why="One process on one node runs unless it is said how several work together.",
            hint=f"distributed_backend={backends[0]!r}. Supported: {_words(backends)}.",
        )


def _beside(name: str, others: Sequence[str], why: str) -> Exception:
    error = _contradiction(name, others, why)
    return training_error(error.what, why=error.why, hint=error.hint)


def _contradiction(name: str, others: Sequence[str], why: str) -> InvalidArgument:
    listed = ", ".join(others)
    return InvalidArgument(f"{name} and {listed} cannot go together.", why=why, hint=f"Leave out {listed}.")


def _words(backends: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in backends)


def checked_params(script_params: Any) -> Dict[str, Any]:
    """Raises TrainingException: it is no dict of texts."""
    if script_params is None:
        return {}
    if not isinstance(script_params, Mapping) or not all(isinstance(name, str) for name in script_params):
        raise training_error(
            f"script_params is a {type(script_params).__name__} ({script_params!r:.100}).",
            why="It must be a dict from arguments to their values.",
            hint=_EXAMPLE,
        )
    return dict(script_params)


def flat_arguments(script_params: Mapping[str, Any]) -> List[Any]:
    """Return them in order: '' and None are bare flags, a list is spread. Data among them is left as it is."""
    found: List[Any] = []
    for name, value in script_params.items():
        found.append(name)
        if isinstance(value, (list, tuple)):
            found += value
        elif value is not None and not (isinstance(value, str) and value == ""):
            found.append(value)
    return found


def merged_params(own: Mapping[str, Any], given: Optional[Any]) -> Dict[str, Any]:
    """Return `own` with what submit() is given: a flag that both have gets the given value."""
    return {**own, **checked_params(given)}
