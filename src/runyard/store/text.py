"""Text and JSON that any database takes and gives back: no NUL, no lone surrogate, no unreadable number.

Stored bytes that are not what was stored.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta, timezone
from typing import Any

MAX_INDEXED = 255  # PostgreSQL refuses index entries over 2.7 kB
MAX_INT_BITS = 10_000  # json refuses to write or read integers of more than 4,300 digits
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class DamagedBytes(Exception):
    """A row cannot be read. The database turns it into StoreUnavailable, which names the file."""


def clean(value: str) -> str:
    """Return `value` with NUL and lone surrogates written as escapes."""
    if "\0" in value:
        value = value.replace("\0", "\\x00")
    if value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def indexed(value: str) -> str:
    """Return the form in which a tag's or property's text is kept for equality searches."""
    text = clean(value)
    if len(text) <= MAX_INDEXED:
        return text
    return text[:128] + hashlib.sha256(text.encode()).hexdigest()


def dump(value: Any) -> str:
    """Return JSON in ASCII; whatever JSON has no word for becomes text."""
    try:
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError):
        return json.dumps(_plain(value), separators=(",", ":"))


def load(text: str) -> Any:
    """Return what `dump` was given.

    Raises:
        Damaged: it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise DamagedBytes(f"a document is not JSON ({error})") from error


def scalar(value: Any) -> Any:
    """Return a metric's value as None, bool, int, float or str."""
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is str:
        return value
    if kind is int:
        return value if value.bit_length() <= MAX_INT_BITS else hex(value)
    if hasattr(value, "item") and not isinstance(value, (list, tuple, dict)):
        value = value.item()  # a numpy scalar
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return scalar(base(value))
    return repr(value)


def to_microseconds(value: datetime) -> int:
    """Return a time as microseconds since 1970, in UTC."""
    return (value - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """Return the time of microseconds since 1970, in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return scalar(value)
