"""Read a YAML document without a package: block and flow collections, every style of scalar, comments, anchors.

Nothing in a text is executed; depth and size are limited. Scalars are read as YAML 1.2 and Azure's SDK read them
(`scalars.py`); a key that is given twice is an error, since one of the two values would be lost in silence.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List

from runyard.core.yaml.cursor import ALIAS, BLANKS, END, MARKER, NONE, PROPERTY, Cursor, Pairs, Properties
from runyard.core.yaml.flow import read_flow
from runyard.core.yaml.scalars import YamlScalar, read_block

_IGNORED_LINES = re.compile(r"(?:[ \t]*(?:#[^\n\0]*)?\n)*")
_REST_OF_LINE = re.compile(r"(?:[ \t]+#[^\n\0]*|[ \t]*)(?=[\n\0])")
_SPACES = re.compile(r" *")
_PLAIN = re.compile(r"(?:[^ \t\n\0:#]|:(?=[^ \t\n\0])|(?<![ \t\n])#|[ \t]+(?=[^ \t\n\0:#]|:[^ \t\n\0]))+")
_QUOTED_ON_A_LINE = {
    '"': re.compile(r"\"(?:[^\"\\\n\0]|\\[^\n\0])*\""),
    "'": re.compile(r"'(?:[^'\n\0]|'')*'"),
}
_COLON = re.compile(r"[ \t]*:(?=[ \t\n\0])")
_LINE_OF_DIRECTIVE = re.compile(r"%[^\n\0]*\n")


def load(text: str) -> Any:
    """Return what the one document in `text` holds; None where there is none.

    Raises:
        YamlError: the text is no YAML, holds a second document, or is too deep or too large.
    """
    return _Blocks(Cursor(text)).read_document()


class _Blocks:
    """One pass over the text. Between two values the cursor is at the first character of the next line that has
    content, and `_column` is that line's indentation, or -1 at the document's end.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._column = -1

    def read_document(self) -> Any:
        self._to_content()
        while self._cursor.char() == "%" and self._column == 0:
            found = _LINE_OF_DIRECTIVE.match(self._cursor.text, self._cursor.at)
            if found is None or not found[0].startswith("%YAML"):
                raise self._cursor.error("only the directive `%YAML` is known")
            self._cursor.at = found.end()
            self._to_content()
        if self._column < 0 and self._cursor.text.startswith("---", self._cursor.at):
            self._cursor.at += 3
            value = self._value(-1, compact=False, is_key=False)
        else:
            value = None if self._column < 0 else self._block(self._column, -1, NONE)
        if self._column >= 0:
            raise self._cursor.error(self._misplaced())
        if self._cursor.text.startswith("...", self._cursor.at):
            self._cursor.at += 3
            self._finish_line()
            if self._cursor.char() != END:
                raise self._cursor.error("another document begins here")
        elif self._cursor.char() != END:
            raise self._cursor.error("another document begins here; a file holds one")
        return value

    def _value(self, indent: int, *, compact: bool, is_key: bool) -> Any:
        """Read what follows `key:`, `-` or `---`: on the same line, else on the lines below.

        Args:
            indent: The column of the collection that the value belongs to.
            compact: Whether a list or mapping may begin on the same line, as in `- key: value`.
            is_key: Whether the value belongs to a key; then a list below may have the key's own indentation.
        """
        self._cursor.skip(BLANKS)
        properties = NONE
        if not self._ends_line():
            if compact and (self._cursor.is_mark("-") or self._cursor.is_mark("?") or self._is_key()):
                return self._block(self._cursor.at - self._line_start(), indent, NONE)
            properties = self._cursor.properties()
            if not self._ends_line():
                return self._line_value(indent, properties)
        self._finish_line()
        if self._column > indent:
            return self._block(self._column, indent, properties)
        if is_key and self._column == indent and self._cursor.is_mark("-"):
            return self._block(self._column, indent - 1, properties)
        return self._cursor.scalar(YamlScalar("", True), properties)

    def _block(self, column: int, parent: int, properties: Properties) -> Any:
        """Read the value that begins at `column`, which is deeper than its parent's."""
        self._cursor.enter()
        start = self._cursor.begin(properties)
        value: Any
        if self._cursor.is_mark("-"):
            value = self._cursor.collected(self._sequence(column), "seq", properties)
        elif self._cursor.is_mark("?") or self._is_key():
            value = self._cursor.collected(self._mapping(column), "map", properties)
        else:
            mine = self._cursor.properties()
            if None not in (mine.anchor, properties.anchor) or None not in (mine.tag, properties.tag):
                raise self._cursor.error("a value has two anchors or tags", mine.at)
            has_more = mine is not NONE
            mine = mine._replace(tag=properties.tag if mine.tag is None else mine.tag, at=mine.at or properties.at)
            if has_more and self._ends_line():
                self._finish_line()
                value = (
                    self._block(self._column, parent, mine)
                    if self._column > parent
                    else self._cursor.scalar(YamlScalar("", True), mine)
                )
            else:
                value = self._line_value(parent, NONE if mine == NONE else mine)
        self._cursor.keep(properties, value, start)
        self._cursor.leave()
        return value

    def _sequence(self, column: int) -> List[Any]:
        found: List[Any] = []
        while self._column == column or not found:  # the first item of a compact list is not at its line's beginning
            if not self._cursor.is_mark("-"):
                break
            self._cursor.at += 1
            found.append(self._value(column, compact=True, is_key=False))
        self._check_indent(column)
        return found

    def _mapping(self, column: int) -> Dict[Any, Any]:
        pairs = Pairs(self._cursor)
        is_first = True
        while is_first or self._column == column:
            is_first = False
            at = self._cursor.at
            if self._cursor.is_mark("?"):
                self._cursor.at += 1
                key = self._value(column, compact=True, is_key=False)
                value = None
                if self._column == column and self._cursor.is_mark(":"):
                    self._cursor.at += 1
                    value = self._value(column, compact=True, is_key=True)
                pairs.add(key, value, at)
            elif self._is_key():
                is_merge = self._cursor.text.startswith("<<", at)
                key = self._key()
                self._cursor.at += 1
                pairs.add(key, self._value(column, compact=False, is_key=True), at, is_merge=is_merge and key == "<<")
            elif self._cursor.is_mark("-"):
                break
            else:
                raise self._cursor.error(self._misplaced())
        self._check_indent(column)
        return pairs.merged()

    def _key(self) -> Any:
        """Read a key that `_is_key` found, and stop at its colon."""
        properties = self._cursor.properties()
        if self._cursor.char() == ":" and self._cursor.text[self._cursor.at + 1] in " \t\n\0":
            return self._cursor.scalar(YamlScalar("", True), properties)
        if self._cursor.char() == "*":
            value = self._cursor.alias(properties)
        elif self._cursor.char() in "\"'":
            value = self._cursor.scalar(YamlScalar(self._cursor.quoted(), False), properties)
        else:
            found = _PLAIN.match(self._cursor.text, self._cursor.at)
            assert found is not None  # `_is_key` saw it
            self._cursor.at = found.end()
            value = self._cursor.scalar(YamlScalar(found[0], True), properties)
        self._cursor.skip(BLANKS)
        return value

    def _line_value(self, parent: int, properties: Properties) -> Any:
        """Read a scalar, an alias or a flow collection that begins here, to the end of its last line."""
        character = self._cursor.char()
        if character in "|>":
            text = self._block_scalar(parent)
            self._to_content()
            return self._cursor.scalar(YamlScalar(text, False), properties)
        if character == "*":
            value = self._cursor.alias(properties)
        elif character in "\"'":
            value = self._cursor.scalar(YamlScalar(self._cursor.quoted(), False), properties)
        elif character in "[{":
            value = read_flow(self._cursor, properties)
        else:
            value = self._cursor.scalar(YamlScalar(self._cursor.plain(_PLAIN, parent), True), properties)
        self._finish_line()
        return value

    def _block_scalar(self, parent: int) -> str:
        at = self._cursor.at
        try:
            text, self._cursor.at = read_block(self._cursor.text, at, parent)
        except ValueError as error:
            raise self._cursor.error(str(error), at) from None
        return text

    def _is_key(self) -> bool:
        """Whether a key and its colon stand on the rest of this line."""
        at = self._cursor.at
        while self._cursor.text[at] in "&!":
            found = PROPERTY.match(self._cursor.text, at)
            if found is None:
                return False
            blanks = BLANKS.match(self._cursor.text, found.end())
            at = blanks.end() if blanks is not None else found.end()
        first = self._cursor.text[at]
        if first in ",[]{}#|>@`%\n\0":
            return False
        if first == "*":
            name = ALIAS.match(self._cursor.text, at)
            at = at if name is None else name.end() - name[1].endswith(":")
        else:
            key = _QUOTED_ON_A_LINE.get(first, _PLAIN).match(self._cursor.text, at)
            at = at if key is None else key.end()
        return _COLON.match(self._cursor.text, at) is not None

    def _ends_line(self) -> bool:
        return self._cursor.char() in "\n\0" or self._is_comment()

    def _is_comment(self) -> bool:
        return self._cursor.char() == "#" and self._cursor.text[self._cursor.at - 1] in " \t"

    def _finish_line(self) -> None:
        """Go to the next line that has content; nothing but a comment may be left on this one."""
        if self._is_comment():
            self._cursor.at -= 1
        found = _REST_OF_LINE.match(self._cursor.text, self._cursor.at)
        if found is None:
            self._cursor.skip(BLANKS)
            if self._cursor.char() == ":":
                raise self._cursor.error("a `:` is not expected here; a text that holds one needs quotes")
            raise self._cursor.error("the line should end here; a text with special characters needs quotes")
        self._cursor.at = found.end()
        self._to_content()

    def _to_content(self) -> None:
        if self._cursor.char() == "\n":
            self._cursor.at += 1
        self._cursor.skip(_IGNORED_LINES)
        start = self._cursor.at
        self._cursor.skip(_SPACES)
        if self._cursor.char() == "\t":
            self._cursor.skip(BLANKS)
            if self._cursor.char() not in "#\0":
                raise self._cursor.error("a tab cannot indent a line; use spaces")
        if self._cursor.char() == "#":  # the last line, without an end
            self._cursor.at = len(self._cursor.text) - 1
        self._column = self._cursor.at - start
        if self._cursor.char() == END or (self._column == 0 and MARKER.match(self._cursor.text, self._cursor.at)):
            self._column = -1

    def _line_start(self) -> int:
        return self._cursor.text.rfind("\n", 0, self._cursor.at) + 1

    def _check_indent(self, column: int) -> None:
        if self._column > column:
            raise self._cursor.error(self._misplaced())

    def _misplaced(self) -> str:
        if self._cursor.char() == "\t":
            return "a tab cannot indent a line; use spaces"
        if self._is_key() or self._cursor.is_mark("-"):
            return "the indentation of this line fits none of the lines above"
        return "a line `key: value` or `- item` is expected here"
