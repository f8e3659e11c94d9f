"""Write YAML that reads the same here, in Azure's SDK, conda and PyYAML, whichever version of YAML they follow."""

from __future__ import annotations

import re
from typing import Any, List, Mapping

# What every reader takes as text without quotes: no character with a meaning, and no number's beginning.
_PLAIN = re.compile(r"(?:--?(?=[A-Za-z])|[A-Za-z_/]|\./)[^:#'\"&*?|{}%@`,\\]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def dump(value: Any) -> str:
    """Return a document made of dicts, lists, texts, numbers, booleans and None.

    Raises:
        TypeError: it holds something else.
    """
    return "\n".join(_lines(value)) + "\n"


def _scalar(value: Any) -> str:
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
        return [line for key, item in value.items() for line in _entry(_scalar(str(key)), item)]
    if isinstance(value, (list, tuple)) and value:
        return [line for item in value for line in _item(item)]
    return [_scalar(value)]


def _entry(key: str, value: Any) -> List[str]:
    if isinstance(value, Mapping) and value:
        return [f"{key}:", *(f"  {line}" for line in _lines(value))]
    if isinstance(value, (list, tuple)) and value:
        return [f"{key}:", *_lines(value)]
    return [f"{key}: {_scalar(value)}"]


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
