"""Read `.env` files: `NAME=value` lines, `export`, quotes and comments. Nothing in them is executed."""

from __future__ import annotations

import os
import re
from typing import Dict, List

from runyard.core.errors import InvalidArgument, NotFound

_MAX_BYTES = 1 << 20
_NAME = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=[ \t]*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\[\s\S])*)"')
_PLAIN = re.compile(r"[^\n]*")
_REST = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")
_SKIP = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)+")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}


def read_env_file(path: str) -> Dict[str, str]:
    """Return the variables of the file, in its order. `$NAME` in a value stays as it is written.

    Raises:
        NotFound: there is no such file.
        InvalidArgument: a line is no `NAME=value`; the message names it.
    """
    if not os.path.isfile(path):
        raise NotFound(
            f"There is no file `{path}` with variables.", why=f"Looked in {os.getcwd()}.", hint="Give its path."
        )
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(_MAX_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"`{path}` cannot be read.", why=f"{error}.", hint=f"`ls -l {path}`") from None
    return _Lines(text, path).read()


class _Lines:
    def __init__(self, text: str, path: str) -> None:
        self._text, self._path, self._at = text, path, 0

    def read(self) -> Dict[str, str]:
        found: Dict[str, str] = {}
        while True:
            blank = _SKIP.match(self._text, self._at)
            self._at = blank.end() if blank else self._at
            if not self._text[self._at :].strip():
                return found
            name = _NAME.match(self._text, self._at)
            if name is None:
                raise self._error("it should be NAME=value")
            self._at = name.end()
            found[name.group(1)] = self._value()

    def _value(self) -> str:
        for pattern, has_escapes in ((_SINGLE, False), (_DOUBLE, True)):
            match = pattern.match(self._text, self._at)
            if match is not None:
                rest = _REST.match(self._text, match.end())
                if rest is None:
                    raise self._error("something follows the closing quote")
                self._at = rest.end()
                return _unescaped(match.group(1)) if has_escapes else match.group(1)
        if self._text.startswith(('"', "'"), self._at):
            raise self._error("a quote is not closed")
        match = _PLAIN.match(self._text, self._at)
        assert match is not None
        self._at = min(match.end() + 1, len(self._text))
        return re.split(r"(?:^|\s)#", match.group(), maxsplit=1)[0].strip()

    def _error(self, why: str) -> InvalidArgument:
        line = self._text.count("\n", 0, self._at) + 1
        return InvalidArgument(
            f"`{self._path}`, line {line} cannot be read: {why}.",
            why="Values are not shown: they may be secret.",
            hint="Write NAME=value, NAME='a value' or export NAME=value.",
        )


def _unescaped(text: str) -> str:
    return re.sub(r"\\([\s\S])", lambda match: _ESCAPES.get(match.group(1), match.group(0)), text)


def read_env_files(paths: List[str]) -> Dict[str, str]:
    """Return the variables of all files; later ones win."""
    return {name: value for path in paths for name, value in read_env_file(path).items()}
