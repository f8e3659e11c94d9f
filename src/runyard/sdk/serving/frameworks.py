"""Give a service's environment the scikit-learn that its model was trained with, where the environment names none.

Estimators are pickles: another version may read them wrongly, or not at all. Nothing that a user pinned is changed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Callable, List, NamedTuple, Optional, Sequence, Set, Tuple

from runyard.core.errors import NotFound
from runyard.core.formats.documents import EnvironmentFacts
from runyard.core.provided_packages import package_name
from runyard.core.specs import EnvironmentSpec

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core.records import ModelVersion

SKLEARN = "scikit-learn"
_NUMPY = "numpy"
_EXACT = re.compile(r"\d+(?:\.\d+)+")
_NAMES = {SKLEARN, "sklearn"}
# The oldest and the newest scikit-learn with wheels for a Python, of those that have an oldest or a newest one.
_OLDEST = {"3.8": "0.22", "3.9": "0.24.0", "3.10": "1.0.2", "3.11": "1.1.3", "3.12": "1.3.2", "3.13": "1.5.2"}
_NEWEST = {"3.7": "1.0.2", "3.8": "1.3.2", "3.9": "1.6.1", "3.10": "1.7.2"}
_FIRST_WITH_NUMPY_2 = (1, 4, 2)


FactsOf = Callable[[str], EnvironmentFacts]


class MadeWith(NamedTuple):
    """With what a model was trained; `said`: how we know."""

    model: str
    version: str
    numpy: str
    said: str


def made_with(facts_of: FactsOf, model: ModelVersion) -> Optional[MadeWith]:
    """Return the scikit-learn of a model: as it was registered, else as it was in the run that made it."""
    spec = model.spec
    facts = facts_of(spec.run_id) if spec.run_id else EnvironmentFacts()
    packages = {package_name(name): version for name, version in (facts.get("packages") or {}).items()}
    name, numpy = f"{model.name}:{model.version}", packages.get(_NUMPY, "")
    if spec.framework == "ScikitLearn" and _EXACT.fullmatch(spec.framework_version):
        return MadeWith(name, spec.framework_version, numpy, "its model_framework_version")
    if SKLEARN in packages:
        return MadeWith(name, packages[SKLEARN], numpy, f"run {spec.run_id} had it")
    return None


def pin_frameworks(
    facts_of: FactsOf, environment: EnvironmentSpec, models: Sequence[ModelVersion]
) -> Tuple[EnvironmentSpec, List[str]]:
    """Return the environment with the models' scikit-learn, and what to tell about that.

    `facts_of` returns what is known of a run's environment: `run_facts(client)`.
    """
    if environment.kind == "system" or _is_pinned(environment, _NAMES):
        return environment, []  # a worker says so when it finds another version than the model's
    made = [found for found in (made_with(facts_of, model) for model in models) if found is not None]
    if not made:
        return environment, []
    if len({one.version for one in made}) > 1:
        known = ", ".join(f"{one.model} {one.version}" for one in made)
        return environment, [f"The models were made by several versions of scikit-learn ({known}); none is chosen."]
    return _pinned(environment, made[0])


def nearest_version(version: str, python: Optional[str]) -> str:
    """Return the version of scikit-learn nearest to `version` that can be installed for a Python."""
    minor = ".".join((python or "").split(".")[:2])
    oldest, newest = _OLDEST.get(minor), _NEWEST.get(minor)
    if oldest and _parts(version) < _parts(oldest):
        return oldest
    return newest if newest and _parts(version) > _parts(newest) else version


def numpy_limit(version: str, numpy: str) -> str:
    """Return the requirement on NumPy that goes with a scikit-learn; "": any does."""
    if _parts(version) < _FIRST_WITH_NUMPY_2:
        return f"{_NUMPY}<2"
    return f"{_NUMPY}<{_parts(numpy)[0] + 1}" if numpy else ""


def _pinned(environment: EnvironmentSpec, made: MadeWith) -> Tuple[EnvironmentSpec, List[str]]:
    version = nearest_version(made.version, environment.python_version)
    limits = [f"{SKLEARN}=={version}"]
    limit = numpy_limit(version, made.numpy)
    if limit and not _is_pinned(environment, {_NUMPY}):
        limits.append(limit)
    conda = [_conda_pin(line, version) for line in environment.conda_packages]
    note = f"The service takes scikit-learn {version}, with which `{made.model}` was made ({made.said})."
    if version != made.version:
        note = (
            f"`{made.model}` was made by scikit-learn {made.version} ({made.said}), which is not there for Python "
            f"{environment.python_version}; the service gets the nearest, {version}."
        )
    pinned = replace(environment, pip_constraints=[*environment.pip_constraints, *limits], conda_packages=conda)
    return pinned, [f"{note} Name a version in the environment to have another."]


def _conda_pin(line: str, version: str) -> str:
    return f"{line.strip()}={version}" if line.strip() in _NAMES else line


def _is_pinned(environment: EnvironmentSpec, names: Set[str]) -> bool:
    lines = [*environment.pip_packages, *environment.pip_constraints, *environment.conda_packages]
    named = [line.split(";")[0] for line in lines if package_name(line.rpartition("::")[2]) in names]
    return any(re.search(r"[=<>~!@]", line) for line in named)


def run_facts(client: Client) -> FactsOf:
    """Return what finds a run's environment; of a run that is gone nothing is known."""

    def find(run_id: str) -> EnvironmentFacts:
        try:
            return client.runs.get(run_id).environment
        except NotFound:
            return EnvironmentFacts()

    return find


def _parts(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
