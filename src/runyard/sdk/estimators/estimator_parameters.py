"""The parameters of estimators: their names, defaults, old spellings, and who has which."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Dict, Mapping, Sequence, Tuple

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


def read_parameters(owner: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return all parameters with their defaults and without old spellings.

    Raises:
        TypeError: one that this estimator does not have, or both spellings of one.
    """
    found = dict(known)
    for name, value in given.items():
        new = OLD_NAMES.get(name, name)
        if new not in known:
            raise TypeError(_unknown(owner, name, known))
        if new != name and new in given:
            raise TypeError(f"{owner}() got both {new!r} and its old spelling {name!r}. Give {new!r} alone.")
        found[new] = value
    return found


def signature_of(known: Mapping[str, Any]) -> Any:
    """Return what `help()` and editors show."""
    from inspect import Parameter, Signature  # for people

    first = Parameter("source_directory", Parameter.POSITIONAL_OR_KEYWORD, default=None)
    rest = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in known.items()]
    return Signature([first, *rest])


def given_names(values: Mapping[str, Any], names: Sequence[str]) -> Tuple[str, ...]:
    """Return those of `names` that a user set."""
    return tuple(name for name in names if values.get(name))


def _unknown(owner: str, name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, [*known, "source_directory"], n=1, cutoff=0.7)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(known))}."
    return f"{owner}() got an unexpected keyword argument {name!r}. {hint}"
