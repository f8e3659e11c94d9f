"""Environments as plain data: in a folder of files, and in the record of a run.

The first functions write and read the files, never with the password of a registry. `environment_of` makes an
`Environment` from what a run used.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from runyard.core.errors import InvalidArgument
from runyard.core.provided_packages import package_name
from runyard.sdk.config.files import FilePosition, write_text
from runyard.sdk.config.objects import checked_mapping, variable_values
from runyard.sdk.config.texts import warn
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core import records
    from runyard.core.specs import EnvironmentSpec
    from runyard.sdk.environments.environment import Environment


DEFINITION = "azureml_environment.json"
CONDA = "conda_dependencies.yml"
DOCKERFILE = "BaseDockerfile"
_MAX_BYTES = 1 << 20


def environment_plain(environment: Environment, *, conda_file: str) -> Dict[str, Any]:
    """Return the environment as its file holds it; the packages are in `conda_file`."""
    plain = environment.to_plain()
    plain["python"].pop("condaDependencies", None)
    if isinstance(environment.python.conda_dependencies, CondaDependencies):
        plain["python"]["condaDependenciesFile"] = conda_file
    registry = plain["docker"].get("baseImageRegistry")
    if isinstance(registry, dict) and registry.get("password") is not None:
        warn("The password of docker.base_image_registry is not written to the file; set it again after loading.")
        registry["password"] = None
    return plain


def read_environment(environment: Environment, found: Any, place: FilePosition) -> None:
    """Take over what a file says, and the packages of the conda file it names (relative to `place`)."""
    found = dict(checked_mapping(found, "environment"))
    if found.get("name") is None:
        found["name"] = environment.name
    python = found["python"] = dict(checked_mapping(found.get("python"), "environment.python"))
    inline = python.pop("condaDependencies", None)
    environment.read_plain(found, "environment")
    environment.environment_variables = variable_values(environment.environment_variables)
    if environment.version is not None:
        environment.version = str(environment.version)
    conda_file = environment.python.conda_dependencies_file
    if inline is not None:
        environment.python.conda_dependencies = CondaDependencies(_underlying_structure=inline)
    elif conda_file:
        environment.python.conda_dependencies = CondaDependencies(place.find(str(conda_file)))


def write_folder(environment: Environment, folder: str, *, overwrite: bool) -> None:
    """Write the definition, the conda file and the base Dockerfile into `folder`.

    Raises:
        FileExistsError: the folder exists.
    """
    if os.path.exists(folder) and not overwrite:
        raise FileExistsError(f"{folder} exists. Use save_to_directory(path, overwrite=True) to write into it.")
    os.makedirs(folder, exist_ok=True)
    plain = environment_plain(environment, conda_file=CONDA)
    try:
        text = json.dumps(plain, indent=4)
    except (TypeError, ValueError) as error:
        raise UserErrorException(f"The environment `{environment.name}` cannot be saved: {error}.") from None
    if isinstance(environment.python.conda_dependencies, CondaDependencies):
        write_text(os.path.join(folder, CONDA), environment.python.conda_dependencies.serialize_to_string())
    if environment.docker.base_dockerfile:
        write_text(os.path.join(folder, DOCKERFILE), str(environment.docker.base_dockerfile))
    write_text(os.path.join(folder, DEFINITION), text + "\n")


def read_folder(folder: str) -> Environment:
    """Return the environment that `write_folder`, or Azure's SDK, wrote.

    Raises:
        FileNotFoundError: the folder holds no definition.
    """
    from runyard.sdk.environments.environment import Environment

    file = os.path.abspath(os.path.join(folder, DEFINITION))
    if not os.path.isfile(file):
        raise FileNotFoundError(f"{folder} holds no environment: there is no {DEFINITION}.")
    found, place = _read_json(file), FilePosition(file, os.path.dirname(file))
    environment = Environment(str(found.get("name") or os.path.basename(os.path.dirname(file))))
    read_environment(environment, found, place)
    # Azure's SDK writes these two files beside a definition that does not name them.
    conda, dockerfile = (os.path.join(place.root, name) for name in (CONDA, DOCKERFILE))
    if os.path.isfile(conda):
        environment.python.conda_dependencies = CondaDependencies(conda)
    if os.path.isfile(dockerfile) and not environment.docker.base_dockerfile:
        with open(dockerfile, encoding="utf-8") as text:
            environment.docker.base_dockerfile = text.read()
    return environment


def _read_json(path: str) -> Dict[str, Any]:
    why: Optional[str] = None
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(_MAX_BYTES + 1)
        found = json.loads(text) if len(text) <= _MAX_BYTES else None
        why = f"It is longer than {_MAX_BYTES} characters." if found is None else "It should be a JSON object."
        if isinstance(found, dict):
            return found
    except (OSError, ValueError, RecursionError) as error:
        why = f"{error}."
    raise InvalidArgument(f"The environment's file {path} cannot be read.", why=why, hint="Save the environment again.")


class RecordedEnvironment(Environment):
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


def environment_of(run: records.Run) -> RecordedEnvironment:
    """Return the run's environment; its packages are those found when it ran, before that those asked for.

    Raises:
        UserErrorException: the run is interactive.
    """
    if run.type is None:
        raise UserErrorException(
            f"Run {run.id} has no environment of its own: it is interactive and runs in the Python that started it."
        )
    spec, used = run.spec.environment, run.environment
    made = RecordedEnvironment(spec.name, dict(used))
    if spec.definition:
        read_environment(made, dict(spec.definition), FilePosition("", ""))
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
