"""Read TOML 1.0 into dicts and lists, on every Python: the standard library's reader came with 3.11.

Dates and times stay texts. `pyproject.toml`, the lock files of uv and Poetry and the headers of scripts are TOML.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NoReturn, Set, Tuple

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_END = re.compile(r"[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)")
_VALUE = re.compile(r"[^\s,\]}#]+(?: \d\d:[^\s,\]}#]+)?")  # a date may be followed by a time
_INTEGER = re.compile(r"[+-]?(?:0|[1-9](?:_?\d)*)|0x[\da-fA-F](?:_?[\da-fA-F])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*")
_FLOAT = re.compile(r"[+-]?(?:0|[1-9](?:_?\d)*)(?:\.\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?|[+-]?(?:inf|nan)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(?:\.\d+)?")
_BASIC = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_LITERAL = re.compile(r"'([^'\n]*)'")
_LONG_BASIC = re.compile(r'"""\r?\n?((?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*"{0,2})"""')
_LONG_LITERAL = re.compile(r"'''\r?\n?((?:[^']|'{1,2}(?!'))*'{0,2})'''")
_ESCAPE = re.compile(r'\\(?:([btnfr"\\])|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([ \t]*\r?\n[ \t\r\n]*)|([\s\S]))')
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_MAX_DEPTH = 60
TomlTable = Dict[str, Any]


class TomlError(ValueError):
    """The text is not TOML; the message names the line."""


def read_toml(text: str) -> TomlTable:
    """Return the document's table.

    Raises:
        TomlError: it is not TOML, or gives a key twice.
    """
    return _TomlReader(text.replace("\r\n", "\n")).read()


class _TomlReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._root: TomlTable = {}
        self._closed: Set[int] = set()  # ids of tables that no later header may add to: inline ones
        self._defined: Set[int] = set()  # ids of tables that a header named

    def read(self) -> TomlTable:
        table = self._root
        while True:
            self._skip(_BLANK)
            if self._at >= len(self._text):
                return self._root
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._end_line()

    def _header(self) -> TomlTable:
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        keys = self._keys()
        if not self._text.startswith("]]" if is_array else "]", self._at):
            self._fail("a table's header is not closed")
        self._at += 2 if is_array else 1
        table = self._below(self._root, keys[:-1])
        name = keys[-1]
        if is_array:
            found = table.setdefault(name, [])
            if not isinstance(found, list) or id(found) in self._closed:
                self._fail(f"`{name}` is given twice")
            table = {}
            found.append(table)
            return table
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict) or id(inner) in self._closed or id(inner) in self._defined:
            self._fail(f"`{name}` is given twice")
        self._defined.add(id(inner))
        return inner

    def _below(self, table: TomlTable, keys: List[str]) -> TomlTable:
        for key in keys:
            found = table.setdefault(key, {})
            if isinstance(found, list) and found and id(found) not in self._closed:
                found = found[-1]
            if not isinstance(found, dict) or id(found) in self._closed:
                self._fail(f"`{key}` is no table")
            table = found
        return table

    def _pair(self, table: TomlTable, depth: int = 0) -> None:
        keys = self._keys()
        if not self._text.startswith("=", self._at):
            self._fail("a line should be `key = value`")
        self._at += 1
        self._skip(_SPACE)
        table = self._below(table, keys[:-1])
        if keys[-1] in table:
            self._fail(f"`{keys[-1]}` is given twice")
        table[keys[-1]] = self._value(depth)

    def _keys(self) -> List[str]:
        keys: List[str] = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key())
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _key(self) -> str:
        if self._text.startswith(('"', "'"), self._at):
            return self._string(is_key=True)
        match = _BARE.match(self._text, self._at)
        if match is None:
            self._fail("a key should stand here")
        self._at = match.end()
        return match.group()

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            self._fail(f"more than {_MAX_DEPTH} levels deep")
        first = self._text[self._at : self._at + 1]
        if first in ('"', "'"):
            return self._string()
        if first == "[":
            return self._array(depth + 1)
        if first == "{":
            return self._inline(depth + 1)
        match = _VALUE.match(self._text, self._at)
        if match is None:
            self._fail("a value should stand here")
        self._at = match.end()
        return self._scalar(match.group())

    def _scalar(self, text: str) -> Any:
        if text in ("true", "false"):
            return text == "true"
        if _INTEGER.fullmatch(text):
            return int(text.replace("_", ""), 0 if text[:2] in ("0x", "0o", "0b") else 10)
        if _FLOAT.fullmatch(text):
            return float(text.replace("_", ""))
        if _DATE.fullmatch(text):
            return text
        self._fail(f"`{text:.60}` is no value; texts stand in quotes")

    def _array(self, depth: int) -> List[Any]:
        found: List[Any] = []
        self._closed.add(id(found))
        self._at += 1
        while True:
            self._skip(_BLANK)
            if self._text.startswith("]", self._at):
                self._at += 1
                return found
            found.append(self._value(depth))
            self._skip(_BLANK)
            if self._text.startswith(",", self._at):
                self._at += 1
            elif not self._text.startswith("]", self._at):
                self._fail("a list is not closed")

    def _inline(self, depth: int) -> TomlTable:
        found: TomlTable = {}
        self._at += 1
        self._skip(_BLANK)
        while not self._text.startswith("}", self._at):
            self._pair(found, depth)
            self._skip(_BLANK)
            if self._text.startswith(",", self._at):
                self._at += 1
                self._skip(_BLANK)
            elif not self._text.startswith("}", self._at):
                self._fail("an inline table is not closed")
        self._at += 1
        self._closed.add(id(found))
        return found

    def _string(self, *, is_key: bool = False) -> str:
        kinds: Tuple[Tuple[str, Any, bool], ...] = (
            ('"""', _LONG_BASIC, True), ("'''", _LONG_LITERAL, False), ('"', _BASIC, True), ("'", _LITERAL, False),
        )  # fmt: skip
        for quote, pattern, has_escapes in kinds:
            if self._text.startswith(quote, self._at) and not (is_key and len(quote) == 3):
                match = pattern.match(self._text, self._at)
                if match is None:
                    self._fail("a text is not closed")
                self._at = match.end()
                return _ESCAPE.sub(self._unescaped, match.group(1)) if has_escapes else str(match.group(1))
        self._fail("a text should stand here")

    def _unescaped(self, match: re.Match[str]) -> str:
        short, four, eight, newline, unknown = match.groups()
        if short:
            return _ESCAPES[short]
        if newline is not None:
            return ""
        code = int(four or eight or "110000", 16)
        if unknown is not None or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            self._fail(f"`{match.group():.10}` is no escape")
        return chr(code)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _end_line(self) -> None:
        match = _END.match(self._text, self._at)
        if match is None:
            self._fail("something follows the value")
        self._at = match.end()

    def _fail(self, why: str) -> NoReturn:
        raise TomlError(f"Line {self._text.count(chr(10), 0, self._at) + 1}: {why}.")
