"""The lines of one ignore file, in git's syntax and with git's meaning.

A pattern without `/` is compared with names at any depth, any other with the path from the folder of its file. The last
line that fits an entry decides about it, and `!` keeps what earlier lines left out.
"""

from __future__ import annotations

import re
from typing import Iterable, List, NamedTuple, Optional, Pattern, Tuple

_BOM = "\ufeff"
_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e", "punct": r"!-/:-@\[-`{-~", "space": r" \t\n\r\f\v",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_SPECIAL = re.compile(r"[*?\[\\]")
_NOTHING = "(?!)"  # fits no text


class IgnoreLine(NamedTuple):
    """One line that says something."""

    number: int
    text: str  # as it is written, without blanks at its end
    keeps: bool  # it begins with `!`
    folders_only: bool  # it ends with `/`
    by_name: bool  # it is compared with the name alone, at any depth
    regex: str

    def fits(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Whether an entry (its path below the folder of the ignore file, and its name) is what the line means."""
        if self.folders_only and not is_folder:
            return False
        return re.fullmatch(self.regex, name if self.by_name else path, re.DOTALL) is not None


class IgnoreFile:
    """The rules of one ignore file. `base` is its folder below the root, "" for the root's own."""

    def __init__(self, file: str, base: str, lines: List[IgnoreLine]) -> None:
        self.file = file  # its path below the root
        self.base = base
        self.lines = lines
        self._skip = len(base) + 1 if base else 0
        # Most entries are fit by no line: one look at all lines together is faster than a look at each.
        self._names_of_files = _any_of(line for line in lines if line.by_name and not line.folders_only)
        self._paths_of_files = _any_of(line for line in lines if not line.by_name and not line.folders_only)
        self._names_of_folders = _any_of(line for line in lines if line.by_name)
        self._paths_of_folders = _any_of(line for line in lines if not line.by_name)

    @property
    def only_keeps(self) -> bool:
        """Whether every line begins with `!`, and there is one."""
        return bool(self.lines) and all(line.keeps for line in self.lines)

    def find(self, path: str, name: str, *, is_folder: bool) -> Optional[IgnoreLine]:
        """Return the line that decides about an entry, by its path below the root; None when none fits it."""
        below = path[self._skip :]
        names, paths = (
            (self._names_of_folders, self._paths_of_folders)
            if is_folder
            else (self._names_of_files, self._paths_of_files)
        )
        if (names is None or names.fullmatch(name) is None) and (paths is None or paths.fullmatch(below) is None):
            return None
        fitting = (line for line in reversed(self.lines) if line.fits(below, name, is_folder=is_folder))
        return next(fitting, None)


def parse_ignore_file(data: bytes, *, file: str, base: str = "") -> IgnoreFile:
    """Return the rules that the bytes of an ignore file say. No text is wrong: a broken pattern fits nothing."""
    text = data.decode("utf-8", "surrogateescape")
    rows = text[len(_BOM) :].split("\n") if text.startswith(_BOM) else text.split("\n")
    is_ended = text.endswith("\n")
    lines = []
    for number, row in enumerate(rows, 1):
        # A carriage return belongs to the end of a line, and the last row has none.
        has_return = row.endswith("\r") and (number < len(rows) or not is_ended)
        line = parse_line(row[:-1] if has_return else row, number)
        if line is not None:
            lines.append(line)
    return IgnoreFile(file, base, lines)


def parse_line(row: str, number: int = 0) -> Optional[IgnoreLine]:
    """Return what one line says; None for an empty line or a comment."""
    if row.startswith("#"):
        return None
    text = _without_blanks(row)
    pattern = text[1:] if text.startswith("!") else text
    if not pattern:
        return None
    folders_only = pattern.endswith("/")
    pattern = pattern[:-1] if folders_only else pattern
    by_name = "/" not in pattern
    regex = _to_regex(pattern if by_name else pattern[pattern.startswith("/") :])
    return IgnoreLine(number, text, text.startswith("!"), folders_only, by_name, regex)


def _any_of(lines: Iterable[IgnoreLine]) -> Optional[Pattern[str]]:
    regexes = [line.regex for line in lines]
    return re.compile("|".join(f"(?:{regex})" for regex in regexes), re.DOTALL) if regexes else None


def _without_blanks(row: str) -> str:
    """Return the line without the spaces at its end, but for those behind a backslash."""
    end = at = 0
    while at < len(row):
        if row[at] == "\\":
            at += 1
            end = at + 1
        elif row[at] != " ":
            end = at + 1
        at += 1
    return row[:end]


def _to_regex(pattern: str) -> str:
    """Return the regular expression for a whole name or path. `*`, `?` and `[…]` never stand for a `/`."""
    pieces: List[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            end = at
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            piece, at = _stars(pattern, at, end)
            pieces.append(piece)
            continue
        if char == "[":
            piece, at = _bracket(pattern, at + 1)
            pieces.append(piece)
            continue
        if char == "\\":
            at += 1
            if at == len(pattern):
                return _NOTHING
            char = pattern[at]
        elif char == "?":
            pieces.append("[^/]")
            at += 1
            continue
        pieces.append(re.escape(char))
        at += 1
    return "".join(pieces)


def _stars(pattern: str, start: int, end: int) -> Tuple[str, int]:
    """Return what a row of stars stands for, and where the pattern goes on."""
    # git compares what stands before the first special character by itself, so stars behind that begin a part too.
    begins_part = start == 0 or pattern[start - 1] == "/" or ("/" in pattern and not _SPECIAL.search(pattern[:start]))
    if end - start == 1 or not begins_part or (end < len(pattern) and pattern[end] != "/"):
        return "[^/]*", end
    if end == len(pattern):
        return ".*", end
    return "(?:.*/)?", end + 1  # `**/`: folders, or none


def _bracket(pattern: str, at: int) -> Tuple[str, int]:
    """Return the set of characters that begins at `at`, behind its `[`; one without an end fits nothing."""
    negated = at < len(pattern) and pattern[at] in "!^"
    at += negated
    pieces: List[str] = []
    previous: Optional[str] = None  # the character that a range may begin with
    is_first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not is_first:
            return _char_set(pieces, negated=negated), at + 1
        is_first = False
        if pattern.startswith("[:", at):
            end = pattern.find("]", at + 2)
            if end < 0:
                return _NOTHING, len(pattern)
            if end - 1 >= at + 2 and pattern[end - 1] == ":":
                name = pattern[at + 2 : end - 1]
                if name not in _CLASSES:
                    return _NOTHING, len(pattern)
                pieces.append(_CLASSES[name])
                previous, at = None, end + 1
                continue
        if char == "-" and previous is not None and at + 1 < len(pattern) and pattern[at + 1] != "]":
            at += 1
            if pattern[at] == "\\":
                at += 1
                if at == len(pattern):
                    break
            if previous <= pattern[at]:
                pieces.append(f"{re.escape(previous)}-{re.escape(pattern[at])}")
            previous, at = None, at + 1
            continue
        if char == "\\":
            at += 1
            if at == len(pattern):
                break
            char = pattern[at]
        pieces.append(re.escape(char))
        previous, at = char, at + 1
    return _NOTHING, len(pattern)


def _char_set(pieces: List[str], *, negated: bool) -> str:
    if not negated:
        return f"(?!/)[{''.join(pieces)}]"
    return f"[^/{''.join(pieces)}]"
