"""A RunConfiguration as files: `.azureml/<name>`, and `conda_dependencies.yml` beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List

from runyard.sdk.config.file_values import checked_value, variable_values
from runyard.sdk.config.files import Place, write_text
from runyard.sdk.config.yaml_reader import read_yaml
from runyard.sdk.config.yaml_writer import yaml_text
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.files import environment_plain, read_environment
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.run_config.run_configuration import RunConfiguration

_NEEDED = ("target", "framework", "communicator")  # null is no value of these
_CONDA = "conda_dependencies.yml"
_ENVIRONMENT = "environment.yml"


def write_run_configuration(config: RunConfiguration, place: Place, *, separate_environment: bool) -> None:
    """Write the configuration and its packages; with `separate_environment`, its environment in a third file.

    Raises:
        UserErrorException: a value that no file can hold, or a folder that cannot be written.
    """
    plain = config.to_plain()
    plain["arguments"] = [_argument(value) for value in plain["arguments"] or []]
    environment = environment_plain(config.environment, conda_file=_beside(place, _CONDA))
    plain["environment"] = _beside(place, _ENVIRONMENT) if separate_environment else environment
    text = _text(plain)
    dependencies = config.environment.python.conda_dependencies
    if isinstance(dependencies, CondaDependencies):
        write_text(os.path.join(place.root, _beside(place, _CONDA)), dependencies.serialize_to_string())
    if separate_environment:
        write_text(os.path.join(place.root, _beside(place, _ENVIRONMENT)), _text(environment))
    write_text(place.file, text)


def read_run_configuration(config: RunConfiguration, place: Place) -> None:
    """Take over what the file says.

    Raises:
        UserErrorException: a misspelt key or a wrong value.
        InvalidArgument: the file is no YAML.
    """
    found = {key: value for key, value in read_yaml(place.file).items() if value is not None or key not in _NEEDED}
    environment, command = found.pop("environment", None), found.pop("command", None)
    try:
        config.read_plain(found)
        config.environment_variables = variable_values(config.environment_variables)
        config.script = checked_value("", config.script, "script")
        config.command = command if isinstance(command, list) else checked_value("", command, "command") or ""
        if isinstance(environment, str):
            environment = read_yaml(place.find(environment))
        read_environment(config.environment, environment, place)
        config.data_references = _data_references(config.data_references)
    except UserErrorException as error:
        if type(error) is not UserErrorException:  # about another file, which it names itself
            raise
        raise UserErrorException(f"{place.file}: {error.message}") from error


def _data_references(found: Dict[str, Any]) -> Dict[str, Any]:
    from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration

    made = {}
    for name, value in found.items():
        made[str(name)] = reference = DataReferenceConfiguration()
        reference.read_plain(value, f"dataReferences.{name}")
    return made


def _beside(place: Place, name: str) -> str:
    return os.path.relpath(os.path.join(os.path.dirname(place.file), name), place.root)


def _text(plain: Dict[str, Any]) -> str:
    try:
        return yaml_text(plain)
    except TypeError as error:
        raise UserErrorException(f"This run configuration cannot be saved: {error}") from error


def _argument(value: Any) -> Any:
    from runyard.sdk.submit.arguments import argument_texts

    if isinstance(value, (str, bool, int, float)):
        return value
    texts: List[str] = argument_texts([value])
    return texts[0]
