"""A YAML file that a person or Azure's SDK wrote → plain data. Nothing in it is executed, and its size is bounded."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Type

from runyard.core.errors import InvalidArgument, MissingExtra

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
        import yaml  # type: ignore[import-untyped]  # only who reads such a file needs it

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
