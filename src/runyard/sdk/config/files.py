"""Configuration files: find their paths, write them atomically, read YAML and write YAML.

The reader executes nothing in a file and limits its size; the files come from users or from Azure's SDK. The writer
needs no package, and its YAML reads the same in Azure's SDK, conda and PyYAML.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Type

from runyard.core.errors import InvalidArgument, MissingExtra
from runyard.sdk.exceptions import UserErrorException

FOLDER = ".azureml"
_FOLDERS = (FOLDER, "aml_config")
_ENDINGS = ("", ".runconfig")
_MAX_BYTES = 1 << 20
_MAX_DEPTH = 40
_MAX_VALUES = 100_000  # with every alias written out
# YAML 1.2, as Azure's SDK reads it: `on` and `10:30` are texts, `1e-3` is a number; so are 007 and 2020-01-01 texts.
_KINDS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("merge", r"<<", "<"),
)
_READERS: Dict[str, Type[Any]] = {}
# What every reader takes as text without quotes: no character with a meaning, and no number's beginning.
_PLAIN = re.compile(r"(?:--?(?=[A-Za-z])|[A-Za-z_/]|\./)[^:#'\"&*?|{}%@`,\\]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


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
        MissingExtra: PyYAML is not installed.
    """
    yaml = _yaml(path)
    text = _text(path)
    try:
        found = yaml.load(text, _reader_class(yaml))
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:  # `!!int x` is a ValueError
        raise InvalidArgument(
            f"{path} cannot be read as YAML.", why=_reason(error), hint="Correct that line, or write the file anew."
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


def _yaml(path: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]  # only readers of such a file need it

        return yaml
    except ImportError as error:
        raise MissingExtra(
            f"{path} cannot be read.",
            why="It is YAML, and this Python does not have the package pyyaml.",
            hint="Type `pip install pyyaml`.",
        ) from error


def _reason(error: Exception) -> str:
    problem = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
    mark = getattr(error, "problem_mark", None)
    return f"Line {mark.line + 1}, column {mark.column + 1}: {problem}." if mark is not None else f"{problem}."


def _reader_class(yaml: Any) -> Type[Any]:
    made = _READERS.get("1.2")
    if made is None:
        made = _READERS["1.2"] = _make_reader(yaml)
        made.yaml_implicit_resolvers = {}
        for kind, pattern, first in _KINDS:
            made.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), list(first))
    return made


def _make_reader(yaml: Any) -> Type[Any]:
    class Reader(yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader with limits; a key given twice is an error, as it hides one of two values."""

        def __init__(self, text: str) -> None:
            super().__init__(text)
            self._depth = 0
            self._sizes: Dict[int, int] = {}  # of each finished node, every alias written out

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if self._depth >= _MAX_DEPTH:
                raise yaml.composer.ComposerError(None, None, f"more than {_MAX_DEPTH} levels deep", event.start_mark)
            self._depth += 1
            node = super().compose_node(parent, index)
            self._depth -= 1
            if isinstance(event, yaml.AliasEvent):
                if id(node) not in self._sizes:
                    raise yaml.composer.ComposerError(None, None, "a value that holds itself", event.start_mark)
                return node
            size = self._sizes[id(node)] = 1 + sum(self._sizes[id(part)] for part in _parts(node))
            if size > _MAX_VALUES:
                raise yaml.composer.ComposerError(None, None, f"more than {_MAX_VALUES} values", event.start_mark)
            if isinstance(node, yaml.MappingNode):
                _refuse_twice(yaml, node)
            return node

    return Reader


def _parts(node: Any) -> List[Any]:
    """Return the nodes below a node: none below a scalar, keys and values below a mapping."""
    if isinstance(node.value, str):
        return []
    return [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]


def _refuse_twice(yaml: Any, node: Any) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key.value, str) and key.value in seen and key.value != "<<":
            raise yaml.composer.ComposerError(None, None, f"`{key.value:.50}` is given twice", key.start_mark)
        seen.add(key.value if isinstance(key.value, str) else None)


def yaml_text(value: Any) -> str:
    """Return a document made of dicts, lists, texts, numbers, booleans and None.

    Raises:
        TypeError: it holds something else.
    """
    return "\n".join(_lines(value)) + "\n"


def yaml_scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (Mapping, list, tuple)) and not value:
        return "{}" if isinstance(value, Mapping) else "[]"
    raise TypeError(f"{value!r:.100} is a {type(value).__name__}, which has no place in a file.")


def _lines(value: Any) -> List[str]:
    if isinstance(value, Mapping) and value:
        return [line for key, item in value.items() for line in _entry(yaml_scalar(str(key)), item)]
    if isinstance(value, (list, tuple)) and value:
        return [line for item in value for line in _item(item)]
    return [yaml_scalar(value)]


def _entry(key: str, value: Any) -> List[str]:
    if isinstance(value, Mapping) and value:
        return [f"{key}:", *(f"  {line}" for line in _lines(value))]
    if isinstance(value, (list, tuple)) and value:
        return [f"{key}:", *_lines(value)]
    return [f"{key}: {yaml_scalar(value)}"]


def _item(value: Any) -> List[str]:
    first, *rest = _lines(value)
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _number(value: float) -> str:
    if value != value:
        return ".nan"
    if value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    return text if "e" not in text or "." in text else text.replace("e", ".0e")  # 1e-05 is text to YAML 1.1


def _quoted(text: str) -> str:
    if not text.isprintable():
        return '"' + "".join(map(_escaped, text)) + '"'
    if _PLAIN.fullmatch(text) and text == text.strip() and text.lower() not in _WORDS:
        return text
    return "'" + text.replace("'", "''") + "'"


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\U{ord(character):08x}"
