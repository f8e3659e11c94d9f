"""Models that are served without an entry script: which scorer takes them, and in which environment.

A model says its framework when it is registered; a folder with `MLmodel` needs no word.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Dict, List, Optional, Sequence, Tuple

from runyard.sdk.config.texts import warn_once
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import WebserviceException

SKLEARN, ONNX, TENSORFLOW, MLFLOW = "sklearn", "onnx", "tensorflow", "mlflow"
MULTI = "Multi"
_BY_FRAMEWORK = {"scikitlearn": SKLEARN, "onnx": ONNX, "tensorflow": TENSORFLOW, "tfkeras": TENSORFLOW}
_BY_ENDING = {
    ".onnx": ONNX,
    ".pkl": SKLEARN,
    ".pickle": SKLEARN,
    ".joblib": SKLEARN,
    ".pb": TENSORFLOW,
    ".h5": TENSORFLOW,
    ".keras": TENSORFLOW,
}
_PACKAGES = {SKLEARN: "scikit-learn", ONNX: "onnxruntime", TENSORFLOW: "tensorflow", MLFLOW: "mlflow"}
_BESIDE = {SKLEARN: ["pandas"], ONNX: [], TENSORFLOW: [], MLFLOW: []}  # what tables among the requests need
# The oldest and the newest release with wheels for a Python; None: no newest yet.
_TENSORFLOW_FOR: Dict[Tuple[int, int], Tuple[str, Optional[str]]] = {
    (3, 8): ("2.2.0", "2.13.1"),
    (3, 9): ("2.5.0", "2.20.0"),
    (3, 10): ("2.8.0", None),
    (3, 11): ("2.12.0", None),
    (3, 12): ("2.16.1", None),
    (3, 13): ("2.20.0", None),
}
_PINNED = re.compile(r"\s*([\w.-]+)\s*(?:==\s*([\w.+!-]+))?\s*")


def find_scorer(framework: str, files: List[str]) -> Optional[str]:
    """Return the scorer of a model by its framework and its files' names; None: it needs an entry script."""
    if any(os.path.basename(name) == "MLmodel" for name in files):
        return MLFLOW
    named = _BY_FRAMEWORK.get(framework.lower())
    if named is not None or framework.lower() != MULTI.lower():
        return named
    endings = {os.path.splitext(name)[1].lower() for name in files}
    found = {_BY_ENDING[ending] for ending in endings if ending in _BY_ENDING}
    return found.pop() if len(found) == 1 else None


def choose_scorer(name: str, framework: str, files: List[str]) -> str:
    """Return the scorer of a model.

    Raises:
        WebserviceException: it is of a framework that needs an entry script.
    """
    found = find_scorer(framework, files)
    if found is not None:
        return found
    raise WebserviceException(
        f"The model `{name}` cannot be served without an entry script: its framework is {framework!r}.\n"
        "Give inference_config=InferenceConfig(entry_script='score.py', ...), or register the model with "
        "model_framework=Model.Framework.SCIKITLEARN, ONNX or TENSORFLOW. A folder that MLflow saved (MLmodel) is "
        "served as it is."
    )


def make_environment(scorer: str, version: str = "", requirements: Sequence[str] = (), python: str = "") -> Environment:
    """Return the environment of a model that comes without a script: its framework in the version it was made with.

    Where this Python has all of that installed, it is this Python's own.

    Args:
        scorer: of `choose_scorer`.
        version: of the framework; "" when nobody knows it.
        requirements: what a model of MLflow says it needs, as lines of a requirements file.
        python: the version of Python that it says it needs.
    """
    environment = Environment(f"no-code-{scorer}")
    environment.environment_variables = {}
    package = _PACKAGES[scorer]
    lines = [line for line in requirements if line.strip() and not line.lstrip().startswith("#")]
    is_open = scorer == SKLEARN and version != _installed(package)  # `frameworks` limits it, with what goes with it
    if not lines and version and not is_open:
        lines = [f"{package}=={nearest_tensorflow(version) if scorer == TENSORFLOW else version}"]
    lines = lines or [package]
    is_own = not python or python.startswith("{}.{}".format(*sys.version_info[:2]))
    if is_own and not (is_open and version) and _installed(package) and all(_is_met(line) for line in lines):
        environment.python.user_managed_dependencies = True
        environment.python.conda_dependencies = CondaDependencies()
        return environment
    named = {re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0].lower() for line in lines}
    lines += [name for name in (package, *_BESIDE[scorer]) if name not in named]
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=lines)
    if not is_own:
        environment.python.conda_dependencies.set_python_version(".".join(python.split(".")[:2]))
    return environment


def nearest_tensorflow(wanted: str, python: Optional[Tuple[int, int]] = None) -> str:
    """Return the release that is nearest to the wanted one of those that this Python can have; a change is said."""
    here = python or (sys.version_info[0], sys.version_info[1])
    oldest, newest = _TENSORFLOW_FOR.get(here, ("0", None))
    chosen = wanted
    if _numbers(wanted) < _numbers(oldest):
        chosen = oldest
    elif newest is not None and _numbers(wanted) > _numbers(newest):
        chosen = newest
    if chosen != wanted:
        warn_once(
            f"tensorflow {wanted}, with which the model was made, cannot be had for Python "
            f"{here[0]}.{here[1]}; it is served with {chosen}, the nearest that can."
        )
    return chosen


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", version.split("+")[0])[:3])


def _is_met(requirement: str) -> bool:
    """Whether this Python has the package, in the version that is named; other conditions are not judged here."""
    match = _PINNED.fullmatch(requirement)
    found = _installed(match[1]) if match is not None else None
    return match is not None and found is not None and match[2] in (None, found)


def _installed(package: str) -> Optional[str]:
    from importlib.metadata import PackageNotFoundError, version  # most deploys bring a script

    try:
        return version(package)
    except PackageNotFoundError:
        return None
