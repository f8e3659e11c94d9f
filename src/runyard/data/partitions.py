"""Values that the paths of a dataset's files say, by a partition format such as `/{city}/{day:yyyy/MM/dd}/data.csv`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Dict, List, Match, Pattern, Tuple
from urllib.parse import quote, unquote

from runyard.core.errors import InvalidArgument

_FIELD = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")
_TIME = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_TIME_PART = re.compile("|".join(_TIME))
NOTHING = "__null__"


def partition_keys(form: str) -> List[str]:
    """Return the names of the columns that the format makes."""
    return [name for name, _ in _fields(form)]


def partition_values(form: str, path: str, *, quoted: bool = False) -> Dict[str, Any]:
    """Return what the path says: texts, and times for fields with a format of their own.

    Args:
        quoted: the path was written by `partition_folder`.

    Raises:
        InvalidArgument: the path does not fit the format, or the format is none.
    """
    fields = _fields(form)
    found = _compiled(form).search(f"/{path.lstrip('/')}")
    if found is None:
        raise InvalidArgument(
            f"The path `{path}` does not fit the partition format {form!r}.",
            hint="The format goes from the first partition to the end of the path: '/{city}/{day:yyyy/MM/dd}/*.csv'.",
        )
    try:
        return {name: _value(text, given, quoted) for (name, given), text in zip(fields, _texts(fields, found))}
    except ValueError as error:
        raise InvalidArgument(f"The path `{path}` holds no time for {form!r}.", why=str(error)) from error


def partition_folder(values: Dict[str, Any]) -> str:
    """Return the folder of the rows that have these values."""
    return "/".join(quote(NOTHING if value is None else str(value), safe="") or "%" for value in values.values())


def _fields(form: str) -> List[Tuple[str, str]]:
    found = [(name, given or "") for name, given in _FIELD.findall(form)]
    if not found or len({name for name, _ in found}) != len(found):
        raise InvalidArgument(
            f"{form!r} is no partition format.",
            why="It needs at least one field in braces, and each name once.",
            hint="Write '/{city}/{day:yyyy/MM/dd}/data.csv'.",
        )
    return found


def _compiled(form: str) -> Pattern[str]:
    pieces, at = [], 0
    for index, field in enumerate(_FIELD.finditer(form)):
        pieces += [_literal(form[at : field.start()]), f"(?P<f{index}>{_time_pattern(field.group(2) or '')})"]
        at = field.end()
    text = "".join(pieces) + _literal(form[at:])
    return re.compile(f"{'' if form.startswith('/') else '(?<=/)'}{text}$")


def _literal(text: str) -> str:
    return re.escape(text).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")


def _time_pattern(given: str) -> str:
    if not given:
        return "[^/]+?"
    return _TIME_PART.sub(lambda part: rf"\d{{{len(part.group())}}}", re.escape(given))


def _texts(fields: List[Tuple[str, str]], found: Match[str]) -> List[str]:
    return [found.group(f"f{index}") for index in range(len(fields))]


def _value(text: str, given: str, quoted: bool) -> Any:
    if given:
        return datetime.strptime(text, _TIME_PART.sub(lambda part: _TIME[part.group()], given))
    plain = unquote("" if text == "%" else text) if quoted else text
    return None if quoted and plain == NOTHING else plain
