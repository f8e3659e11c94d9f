"""What a run used, as an `Environment` again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List

from runyard.sdk.conda_dependencies import CondaDependencies
from runyard.sdk.environment import Environment
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core import records


def environment_of(run: records.Run) -> Environment:
    """Return the run's environment; its packages are those found when it ran, before that those asked for.

    Raises:
        UserErrorException: the run is interactive.
    """
    if run.type is None:
        raise UserErrorException(
            f"Run {run.id} has no environment of its own: it is interactive and runs in the Python that started it."
        )
    spec, used = run.spec.environment, run.environment
    made = Environment(spec.name)
    made.version = spec.version
    made.environment_variables = dict(spec.variables)
    made.python.user_managed_dependencies = spec.kind == "system"  # then it runs again just as it did
    made.python.interpreter_path = str(used.get("interpreter") or spec.interpreter or "python")
    made.python.conda_dependencies = _dependencies(run)
    return made


def _dependencies(run: records.Run) -> CondaDependencies:
    spec, used = run.spec.environment, run.environment
    found: Dict[str, str] = used.get("packages") or {}
    pinned: List[str] = [f"{name}=={version}" for name, version in sorted(found.items()) if version]
    made = CondaDependencies.create(
        pip_packages=pinned or spec.pip_packages, conda_packages=[] if pinned else spec.conda_packages
    )
    python = used.get("python") or spec.python_version
    if python:
        made.set_python_version(str(python))
    return made
