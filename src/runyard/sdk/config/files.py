"""Configuration files: find their paths, read them within limits, and write them atomically."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional

from runyard.core.errors import InvalidArgument
from runyard.sdk.exceptions import UserErrorException

FOLDER = ".azureml"
_FOLDERS = (FOLDER, "aml_config")
_ENDINGS = ("", ".runconfig")
_MAX_BYTES = 1 << 20


class FilePosition(NamedTuple):
    """A configuration file, and the folder that the paths written in it start from."""

    file: str
    root: str

    def find(self, name: str) -> str:
        """Return the file that the configuration names: below the root, else beside the configuration itself."""
        for folder in (self.root, os.path.dirname(self.file)):
            path = os.path.join(folder, os.path.expanduser(name))
            if os.path.isfile(path):
                return path
        raise UserErrorException(
            f"{self.file} names the file {name!r}, which does not exist.\n"
            f"Looked in {self.root} and {os.path.dirname(self.file)}."
        )


def find_settings(path: str, name: Optional[str]) -> FilePosition:
    """Return the run configuration `name` of the project at `path`; without a name, `path` is the file.

    Raises:
        UserErrorException: there is none.
    """
    if name is None:
        candidates = [os.path.abspath(path)]
    else:
        folders = [os.path.abspath(os.path.join(path, folder)) for folder in _FOLDERS]
        candidates = [os.path.join(folder, name + ending) for folder in folders for ending in _ENDINGS]
    for file in candidates:
        if os.path.isfile(file):
            return place_of(file)
    raise UserErrorException(
        f"There is no run configuration {name or path!r}.\nLooked for {', '.join(candidates)}.\n{_advice(path, name)}"
    )


def new_settings(path: Optional[str], name: Optional[str]) -> FilePosition:
    """Return where a run configuration is written: `<path>/.azureml/<name>`; without a name, `path` is the file."""
    if name is not None:
        return FilePosition(os.path.join(os.path.abspath(path or "."), FOLDER, name), os.path.abspath(path or "."))
    if path is None or os.path.isdir(path):
        raise UserErrorException("A run configuration needs a name to be saved under: save(path='.', name='train').")
    return place_of(os.path.abspath(path))


def place_of(file: str) -> FilePosition:
    folder = os.path.dirname(file)
    return FilePosition(file, os.path.dirname(folder) if os.path.basename(folder) in _FOLDERS else folder)


def write_text(path: str, text: str) -> None:
    """Write a file; the folder `.azureml` is made where its own folder exists.

    Raises:
        UserErrorException: it cannot be written.
    """
    folder, name = os.path.split(os.path.abspath(path))
    beside = os.path.join(folder, f".{name}.{os.getpid()}.new")
    try:
        if os.path.basename(folder) == FOLDER and not os.path.isdir(folder):
            os.mkdir(folder)
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError as error:
        _remove(beside)
        raise UserErrorException(
            f"{path} cannot be written: {error.strerror}.\nThe folder {folder} must exist and be yours to write."
        ) from error


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _advice(path: str, name: Optional[str]) -> str:
    found: List[str] = []
    for folder in _FOLDERS if name is not None else ():
        try:
            found += [entry for entry in os.listdir(os.path.join(path, folder)) if entry.endswith(".runconfig")]
        except OSError:
            continue
    return f"There is: {', '.join(sorted(found)[:20])}." if found else "Write one with run_config.save(path, name)."


def read_yaml(path: str) -> Dict[str, Any]:
    """Return the mapping that the file holds; an empty file holds an empty one.

    Raises:
        InvalidArgument: it cannot be read, is no YAML, too big or too deep.
    """
    from runyard.core.yaml.cursor import YamlError  # only who reads such a file needs it
    from runyard.core.yaml.reader import load

    text = _text(path)
    try:
        found = load(text)
    except YamlError as error:
        raise InvalidArgument(
            f"{path} cannot be read as YAML.", why=str(error), hint="Correct that line, or write the file anew."
        ) from error
    if found is None:
        return {}
    if isinstance(found, dict):
        return found
    raise InvalidArgument(
        f"{path} should hold `key: value` lines, found a {type(found).__name__}.",
        hint="Look at the file's first lines.",
    )


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) <= _MAX_BYTES:
            return data.decode("utf-8-sig")
        why = f"It is longer than {_MAX_BYTES} bytes; a configuration is a few pages."
    except OSError as error:
        why = f"{error.strerror}."
    except UnicodeDecodeError as error:
        why = f"It is not UTF-8 text ({error.reason} at byte {error.start})."
    raise InvalidArgument(f"{path} cannot be read.", why=why, hint=f"Look at it with `ls -l {path}`.")
