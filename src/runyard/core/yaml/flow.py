"""YAML between brackets: `[a, b]` and `{key: value}`, over as many lines as they need."""

from __future__ import annotations

import re
from typing import Any, Dict, List

from runyard.core.yaml.cursor import END, Cursor, Pairs, Properties
from runyard.core.yaml.scalars import YamlScalar

_FLOW_BLANKS = re.compile(r"(?:[ \t\n]|#[^\n\0]*)*")
_FLOW_PLAIN = re.compile(
    r"(?:[^ \t\n\0:#,\[\]{}]|:(?=[^ \t\n\0,\[\]{}])|(?<![ \t\n])#"
    r"|[ \t]+(?=[^ \t\n\0:#,\[\]{}]|:[^ \t\n\0,\[\]{}]))+"
)


def read_flow(cursor: Cursor, properties: Properties) -> Any:
    """Read the list or mapping whose bracket is at the cursor."""
    cursor.enter()
    start = cursor.begin(properties)
    at = cursor.at
    cursor.at += 1
    value: Any
    if cursor.text[at] == "[":
        value = cursor.collected(_flow_sequence(cursor, at), "seq", properties)
    else:
        value = cursor.collected(_flow_mapping(cursor, at), "map", properties)
    cursor.keep(properties, value, start)
    cursor.leave()
    return value


def _flow_sequence(cursor: Cursor, opened: int) -> List[Any]:
    found: List[Any] = []
    while True:
        at = _flow_next(cursor, opened)
        if cursor.char() == "]":
            cursor.at += 1
            return found
        is_pair = cursor.is_flow_mark("?")
        cursor.at += is_pair
        item = _flow_value(cursor)
        cursor.skip(_FLOW_BLANKS)
        if is_pair or cursor.char() == ":":
            pairs = Pairs(cursor)
            pairs.add(item, _flow_pair_value(cursor), at)
            item = pairs.merged()
        found.append(item)
        _flow_comma(cursor, "]", opened)


def _flow_mapping(cursor: Cursor, opened: int) -> Dict[Any, Any]:
    pairs = Pairs(cursor)
    while True:
        at = _flow_next(cursor, opened)
        if cursor.char() == "}":
            cursor.at += 1
            return pairs.merged()
        cursor.at += cursor.is_flow_mark("?")
        is_merge = cursor.text.startswith("<<", at)
        key = _flow_value(cursor)
        value = _flow_pair_value(cursor)
        pairs.add(key, value, at, is_merge=is_merge and key == "<<")
        _flow_comma(cursor, "}", opened)


def _flow_pair_value(cursor: Cursor) -> Any:
    cursor.skip(_FLOW_BLANKS)
    if cursor.char() != ":":
        cursor.grow(1, cursor.at)
        return None
    cursor.at += 1
    return _flow_value(cursor)


def _flow_value(cursor: Cursor) -> Any:
    cursor.skip(_FLOW_BLANKS)
    properties = cursor.properties(_FLOW_BLANKS)
    character = cursor.char()
    if character in "[{":
        return read_flow(cursor, properties)
    if character == "*":
        return cursor.alias(properties)
    if character in "\"'":
        return cursor.scalar(YamlScalar(cursor.quoted(), False), properties)
    if character in ",]}" or (character == ":" and cursor.text[cursor.at + 1] in " \t\n\0,[]{}"):
        return cursor.scalar(YamlScalar("", True), properties)
    if character in "|>":
        raise cursor.error(f"a text that begins with `{character}` needs quotes between brackets")
    return cursor.scalar(YamlScalar(cursor.plain(_FLOW_PLAIN, -1), True), properties)


def _flow_next(cursor: Cursor, opened: int) -> int:
    cursor.skip(_FLOW_BLANKS)
    if cursor.char() == END:
        raise cursor.error(f"this `{cursor.text[opened]}` is never closed", opened)
    return cursor.at


def _flow_comma(cursor: Cursor, end: str, opened: int) -> None:
    _flow_next(cursor, opened)
    if cursor.char() == ",":
        cursor.at += 1
        cursor.skip(_FLOW_BLANKS)
        if cursor.char() == ",":
            raise cursor.error("there is nothing between two commas")
    elif cursor.char() != end:
        raise cursor.error(f"`,` or `{end}` is expected here")
