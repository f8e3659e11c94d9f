"""What a run used, as an `Environment` again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from runyard.core.provided_packages import package_name
from runyard.sdk.config.files import Place
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.files import read_environment
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core import records
    from runyard.core.specs import EnvironmentSpec


class UsedEnvironment(Environment):
    """The environment of a run, with the versions that were found in it; submitting with it again builds the same."""

    def __init__(self, name: str, used: Dict[str, Any]) -> None:
        self._used = used
        super().__init__(name)

    @property
    def packages(self) -> Dict[str, str]:
        """The version of every package that was found, by name; empty before the run has started."""
        return dict(self._used.get("packages") or {})

    @property
    def lock_file(self) -> Optional[str]:
        """Name of the run's file that pip installs the very same from: `run.download_file(env.lock_file)`."""
        return self._used.get("lock")

    @property
    def interpreter(self) -> Optional[str]:
        """The Python that ran the script."""
        return self._used.get("interpreter")


def environment_of(run: records.Run) -> UsedEnvironment:
    """Return the run's environment; its packages are those found when it ran, before that those asked for.

    Raises:
        UserErrorException: the run is interactive.
    """
    if run.type is None:
        raise UserErrorException(
            f"Run {run.id} has no environment of its own: it is interactive and runs in the Python that started it."
        )
    spec, used = run.spec.environment, run.environment
    made = UsedEnvironment(spec.name, dict(used))
    if spec.definition:
        read_environment(made, dict(spec.definition), Place("", ""))
    made.docker.base_image_registry.password = None  # the record shows that there was one, not which
    made.version = spec.version
    made.environment_variables = dict(spec.variables)
    if spec.kind != "container":  # its interpreter is the image's, and stays as it was asked for
        made.python.user_managed_dependencies = spec.kind == "system"  # then it runs again just as it did
        made.python.interpreter_path = str(used.get("interpreter") or spec.interpreter or "python")
    made.python.conda_dependencies = _dependencies(spec, used)
    return made


def _dependencies(spec: EnvironmentSpec, used: Mapping[str, Any]) -> CondaDependencies:
    """Return the packages in the versions that were found."""
    found: Dict[str, str] = used.get("added" if spec.kind == "container" else "packages") or {}  # an image has its own
    conda = {str(one["name"]): str(one["version"]) for one in used.get("conda") or []}
    ours = {package_name(name) for name in conda}
    others = [name for name in sorted(found) if found[name] and package_name(name) not in ours]
    pinned = [f"{name}=={found[name]}" for name in others]
    made = CondaDependencies.create(
        pip_packages=[*(pinned if found else spec.pip_packages), *spec.pip_options],
        conda_packages=[f"{name}={version}" for name, version in conda.items()] if found else spec.conda_packages,
    )
    made._channels = list(spec.conda_channels)
    python = used.get("python") or spec.python_version
    if python:
        made.set_python_version(str(python))
    return made
