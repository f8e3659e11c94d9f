"""An Environment as plain data in a file, without what no file should hold: the password of a registry."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Optional

from runyard.core.errors import InvalidArgument
from runyard.sdk.config.file_values import checked_mapping, variable_values
from runyard.sdk.config.files import Place, write_text
from runyard.sdk.config.notices import warn
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
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


def read_environment(environment: Environment, found: Any, place: Place) -> None:
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
        raise UserErrorException(f"The environment `{environment.name}` cannot be saved: {error}.") from error
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
    found = _read_json(file)
    environment = Environment(str(found.get("name") or os.path.basename(os.path.dirname(file))))
    read_environment(environment, found, Place(file, os.path.dirname(file)))
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
