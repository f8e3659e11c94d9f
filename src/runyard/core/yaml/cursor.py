"""The place in a YAML text, what was found up to there, and the pieces that block and flow collections share."""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple, Optional, Set, Tuple

from runyard.core.yaml.scalars import YamlScalar, construct, read_quoted

_MAX_DEPTH = 40
_MAX_VALUES = 100_000  # with every alias written out
END = "\0"  # stands behind the last character
_FORBIDDEN = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
BLANKS = re.compile(r"[ \t]*")
_LINES_OF_PLAIN = re.compile(r"[ \t]*\n(?:[ \t]*\n)*( *)[ \t]*(?=[^ \t\n\0#])")
PROPERTY = re.compile(r"(?:&(?P<anchor>[^ \t\n\0,\[\]{}]+)|!(?P<tag><[^>\n\0]*>|[^ \t\n\0,\[\]{}]*))(?=[ \t\n\0,\]}])")
ALIAS = re.compile(r"\*([^ \t\n\0,\[\]{}]+)")
MARKER = re.compile(r"(?:---|\.\.\.)(?=[ \t\n\0])")


class YamlError(ValueError):
    """A text that is no YAML, or too large a one. Lines and columns count from 1."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        super().__init__(f"Line {line}, column {column}: {problem}.")
        self.problem = problem
        self.line = line
        self.column = column


class Properties(NamedTuple):
    """`&anchor` and `!tag` before a value."""

    anchor: Optional[str] = None
    tag: Optional[str] = None
    at: int = 0  # where they stand


NONE = Properties()


class Cursor:
    """A place in the text, the anchors above it, and how much was read. `text` ends with a zero character."""

    def __init__(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if text.startswith("\ufeff"):
            text = text[1:]
        self.text = text + END
        self.at = 0
        self._depth = 0
        self._count = 0
        self._anchors: Dict[str, Tuple[Any, int]] = {}  # the value, and how many values it holds
        self._open: Set[str] = set()  # anchors of values that are being read
        found = _FORBIDDEN.search(text)
        if found is not None:
            raise self.error(f"the character {found[0]!r} is not allowed", found.start())

    def properties(self, blanks: re.Pattern[str] = BLANKS) -> Properties:
        """Read `&anchor` and `!tag` in any order, and the blanks behind them."""
        found = NONE
        while self.char() in "&!":
            match = PROPERTY.match(self.text, self.at)
            if match is None:
                raise self.error(f"`{self.char()}` needs a name and a space; a text that begins so needs quotes")
            kind = "anchor" if match["tag"] is None else "tag"
            if getattr(found, kind) is not None:
                raise self.error(f"a value has two {kind}s")
            found = found._replace(at=self.at, **{kind: match[kind]})
            self.at = match.end()
            self.skip(blanks)
        return found

    def scalar(self, scalar: YamlScalar, properties: Properties) -> Any:
        self.grow(1, self.at)
        try:
            value = construct(scalar, properties.tag)
        except ValueError as error:
            raise self.error(str(error), properties.at or self.at) from None
        if properties.anchor is not None:
            self._anchors[properties.anchor] = (value, 1)
        return value

    def collected(self, value: Any, kind: str, properties: Properties) -> Any:
        if properties.tag not in (None, "", "!" + kind, f"<tag:yaml.org,2002:{kind}>"):
            raise self.error(f"the tag `!{properties.tag}` is not known for a {'list' if kind == 'seq' else 'mapping'}")
        return value

    def alias(self, properties: Properties) -> Any:
        at = self.at
        found = ALIAS.match(self.text, at)
        if found is None or properties is not NONE:
            raise self.error("an alias is `*` and a name, and has no anchor or tag of its own")
        name = found[1]
        # `*name:` is the key's colon, not a part of the name.
        self.at = found.end()
        if name.endswith(":") and name not in self._anchors:
            name = name[:-1]
            self.at -= 1
        if name in self._open:
            raise self.error("a value that holds itself", at)
        if name not in self._anchors:
            raise self.error(f"there is no anchor `&{name}` above", at)
        value, size = self._anchors[name]
        self.grow(size, at)
        return value

    def quoted(self) -> str:
        at = self.at
        try:
            text, self.at = read_quoted(self.text, at)
        except ValueError as error:
            raise self.error(str(error), at) from None
        return text

    def plain(self, pattern: re.Pattern[str], parent: int) -> str:
        """Read a scalar without quotes, which goes on over lines that are deeper than `parent`."""
        self.check_plain_start()
        text = ""
        while True:
            found = pattern.match(self.text, self.at)
            if found is None:
                return text
            text += found[0]
            self.at = found.end()
            lines = _LINES_OF_PLAIN.match(self.text, self.at)
            if lines is None or len(lines[1]) <= parent or self.is_marker(lines):
                return text
            if pattern.match(self.text, lines.end()) is None:
                return text
            breaks = lines[0].count("\n")
            text += " " if breaks == 1 else "\n" * (breaks - 1)
            self.at = lines.end()

    def check_plain_start(self) -> None:
        character, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
        if character in "-?:" and following in " \t\n\0":
            kind = {"-": "a list", "?": "a key", ":": "a value"}[character]
            raise self.error(f"{kind} cannot begin here; put it on a line of its own")
        if character in ",]}":
            raise self.error(f"`{character}` is not expected here")
        if character in "@`%":
            raise self.error(f"a text that begins with `{character}` needs quotes")

    def begin(self, properties: Properties) -> int:
        self.grow(1, self.at)
        if properties.anchor is not None:
            self._open.add(properties.anchor)
        return self._count - 1

    def keep(self, properties: Properties, value: Any, start: int) -> None:
        if properties.anchor is not None:
            self._open.discard(properties.anchor)
            self._anchors[properties.anchor] = (value, self._count - start)

    def enter(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.error(f"more than {_MAX_DEPTH} levels deep")

    def leave(self) -> None:
        self._depth -= 1

    def grow(self, size: int, at: int) -> None:
        self._count += size
        if self._count > _MAX_VALUES:
            raise self.error(f"more than {_MAX_VALUES} values", at)

    def char(self) -> str:
        return self.text[self.at]

    def skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def is_mark(self, mark: str) -> bool:
        return self.text[self.at] == mark and self.text[self.at + 1] in " \t\n\0"

    def is_flow_mark(self, mark: str) -> bool:
        return self.text[self.at] == mark and self.text[self.at + 1] in " \t\n\0,[]{}"

    def is_marker(self, lines: re.Match[str]) -> bool:
        return not lines[1] and MARKER.match(self.text, lines.end()) is not None

    def error(self, problem: str, at: Optional[int] = None) -> YamlError:
        at = self.at if at is None else at
        return YamlError(problem, self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at))


class Pairs:
    """The keys and values of one mapping, and the mappings that `<<` merges into it."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._found: Dict[Any, Any] = {}
        self._merged: Dict[Any, Any] = {}

    def add(self, key: Any, value: Any, at: int, *, is_merge: bool = False) -> None:
        error = self._cursor.error
        if is_merge:
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, dict):
                    raise error("`<<` takes a mapping or a list of mappings", at)
                self._merged = {**part, **self._merged}
            return
        if isinstance(key, (dict, list)):
            raise error("a list or a mapping cannot be a key", at)
        if key in self._found:
            raise error(f"`{key!s:.50}` is given twice", at)
        self._found[key] = value

    def merged(self) -> Dict[Any, Any]:
        return {**self._merged, **self._found} if self._merged else self._found
