"""Text from a run made safe to store: every database takes it and every reader can print it."""

from __future__ import annotations

import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def printable(text: str) -> str:
    """Return `text` with lone surrogates (bytes that were no UTF-8) replaced."""
    return _SURROGATE.sub("\ufffd", text) if not text.isascii() else text


def storable(text: str) -> str:
    """Return `text` without what a database column refuses: lone surrogates and NUL."""
    return _UNSTORABLE.sub("\ufffd", text)


def storable_value(value: Any) -> Any:
    """Return a JSON value with every text in it storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable_value(item) for item in value]
    return value
