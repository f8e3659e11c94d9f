"""YAML's scalars: quoted texts, blocks of lines, and what a text without quotes means.

YAML 1.2 as Azure's SDK reads it: `on` and `10:30` are texts, `1e-3` is a number; 007 and 2020-01-01 are texts.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

_PIECES = {'"': re.compile(r'[^"\\ \t\n\0]+'), "'": re.compile(r"[^' \t\n\0]+")}
_BLANKS = re.compile(r"[ \t]+")
_BREAKS = re.compile(r"[ \t]*\n(?:[ \t]*\n)*[ \t]*")
_MARKER = re.compile(r"\n(?:---|\.\.\.)(?=[ \t\n\0])")
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_CODES = {"x": 2, "u": 4, "U": 8}
_HEADER = re.compile(r"[|>](?:([1-9])?([-+])?|([-+])([1-9]))(?:[ \t]+#[^\n\0]*|[ \t]*)(?=[\n\0])")


class YamlScalar(NamedTuple):
    text: str
    is_plain: bool


def construct(scalar: YamlScalar, tag: Optional[str]) -> Any:
    """Return the value of a scalar; `tag` is what stands behind its `!`.

    Raises:
        ValueError: the tag is unknown, or the text is no value of its kind.
    """
    if tag is None:
        return _resolve(scalar.text) if scalar.is_plain else scalar.text
    kind = tag[len("<tag:yaml.org,2002:") : -1] if tag.startswith("<tag:yaml.org,2002:") else tag[1:]
    if tag == "" or kind == "str":
        return scalar.text
    try:
        if kind == "int":
            return _tagged_int(scalar.text)
        if kind == "float":
            found = _INFINITE.fullmatch(scalar.text)
            return _infinite(found) if found is not None else float(scalar.text.replace("_", ""))
        if kind == "bool":
            return _SWITCHES[scalar.text.lower()]
    except (ValueError, KeyError):
        raise ValueError(f"`{scalar.text:.50}` is not of the kind `!!{kind}`") from None
    if kind == "null":
        return None
    raise ValueError(f"the tag `!{tag:.50}` is not known; a text that begins with `!` needs quotes")


def _resolve(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    found = _INFINITE.fullmatch(text)
    return text if found is None else _infinite(found)


def _infinite(found: re.Match[str]) -> float:
    return float("nan") if found[1] is None else float(found[1] + "inf")


def _tagged_int(text: str) -> int:
    plain = text.replace("_", "")
    try:
        return int(plain, 0)
    except ValueError:
        return int(plain)


def read_quoted(text: str, at: int) -> Tuple[str, int]:
    """Return the text between the quotes that begin at `at`, and the place behind them.

    Raises:
        ValueError: they are never closed, or an escape is unknown.
    """
    quote = text[at]
    piece = _PIECES[quote]
    found: List[str] = []
    start, at = at, at + 1
    while True:
        match = piece.match(text, at)
        if match is not None:
            found.append(match[0])
            at = match.end()
        character = text[at]
        if character == quote:
            if quote == '"' or text[at + 1] != "'":
                return "".join(found), at + 1
            found.append("'")
            at += 2
        elif character == "\\":
            escaped, at = _read_escape(text, at)
            found.append(escaped)
        elif character == "\0":
            raise ValueError(f"this {quote} is never closed")
        else:
            match = _BREAKS.match(text, at)
            if match is None:
                match = _BLANKS.match(text, at)
                assert match is not None  # nothing else is left
                found.append(match[0])
            else:
                if _MARKER.search(text, at, match.end() + 4):
                    raise ValueError(f"this {quote} is not closed before the document ends")
                breaks = match[0].count("\n")
                found.append(" " if breaks == 1 else "\n" * (breaks - 1))
            at = match.end()
        if at <= start:  # cannot happen; a loop without end would be worse than an error
            raise ValueError("this text cannot be read")


def _read_escape(text: str, at: int) -> Tuple[str, int]:
    letter = text[at + 1]
    if letter in _ESCAPES:
        return _ESCAPES[letter], at + 2
    if letter == "\n":
        match = _BREAKS.match(text, at + 1)
        assert match is not None  # it begins with a line's end
        return "\n" * (match[0].count("\n") - 1), match.end()
    if letter not in _CODES:
        raise ValueError(f"`\\{letter}` means nothing between double quotes; single quotes take it as it is")
    code, at = _read_code(text, at + 2, _CODES[letter])
    if 0xD800 <= code < 0xDC00 and text.startswith("\\u", at):  # a pair, as JSON writes it
        low, behind = _read_code(text, at + 2, 4)
        if 0xDC00 <= low < 0xE000:
            code, at = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), behind
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"there is no character {code:#x}")
    return chr(code), at


def _read_code(text: str, at: int, length: int) -> Tuple[int, int]:
    digits = text[at : at + length]
    if not re.fullmatch(rf"[0-9a-fA-F]{{{length}}}", digits):
        raise ValueError(f"an escape needs {length} hexadecimal digits")
    return int(digits, 16), at + length


def read_block(text: str, at: int, parent: int) -> Tuple[str, int]:
    """Return the text of the block whose `|` or `>` is at `at`, and where the line behind it begins.

    Raises:
        ValueError: its first line is no header of a block.
    """
    header = _HEADER.match(text, at)
    if header is None:
        raise ValueError(f"a text that begins with `{text[at]}` needs quotes; a block has nothing else on that line")
    digit, chomp = header[1] or header[4], header[2] or header[3]
    is_folded = text[at] == ">"
    at = header.end() + (text[header.end()] == "\n")
    indent = max(parent, 0) + int(digit) if digit else _found_indent(text, at, parent)
    lines: List[str] = []
    has_end = False
    while text[at] != "\0":
        end = _line_end(text, at)
        line = text[at:end]
        depth = len(line) - len(line.lstrip(" "))
        if depth < len(line) and depth < indent:
            break
        if text[end] == "\n" or line[indent:]:  # spaces at the text's end are no line
            lines.append(line[indent:])
            has_end = text[end] == "\n"
        at = end + (text[end] == "\n")
    return _joined(lines, is_folded=is_folded, chomp=chomp, has_end=has_end), at


def _found_indent(text: str, at: int, parent: int) -> int:
    """Return the indentation of the block's first line that is not empty."""
    longest = least = max(parent + 1, 1)
    while text[at] != "\0":
        end = _line_end(text, at)
        line = text[at:end]
        depth = len(line) - len(line.lstrip(" "))
        if depth < len(line):
            if longest > max(depth, least):
                raise ValueError("the empty lines that begin this block have more spaces than its first text")
            return max(depth, least)
        longest = max(longest, depth)
        at = end + (text[end] == "\n")
    return longest


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) - 1 if end < 0 else end


def _joined(lines: List[str], *, is_folded: bool, chomp: Optional[str], has_end: bool) -> str:
    count = len(lines)
    while count and not lines[count - 1]:
        count -= 1
    breaks = len(lines) - count + (has_end or count < len(lines))
    if count == 0:
        return "\n" * len(lines) if chomp == "+" else ""
    text = _folded(lines[:count]) if is_folded else "\n".join(lines[:count])
    if chomp == "+":
        return text + "\n" * breaks
    return text if chomp == "-" or breaks == 0 else text + "\n"


def _folded(lines: List[str]) -> str:
    text, breaks = lines[0], 0
    before = lines[0]
    for line in lines[1:]:
        breaks += 1
        if not line:
            continue
        if not before or before[0] in " \t" or line[0] in " \t":  # empty lines at the beginning
            text += "\n" * breaks + line
        else:
            text += (" " if breaks == 1 else "\n" * (breaks - 1)) + line
        before, breaks = line, 0
    return text
