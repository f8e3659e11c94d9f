"""Dataclasses to JSON-ready values and back. Unknown fields of a newer peer are dropped."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Dict, Type, TypeVar, Union, get_type_hints

T = TypeVar("T")
_HINTS: Dict[type, Dict[str, Any]] = {}


def to_plain(value: Any) -> Any:
    """Return `value` as dicts, lists, strings and numbers that `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _hints(type(value))}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def from_plain(cls: Type[T], plain: Dict[str, Any]) -> T:
    """Return a `cls` made from what `to_plain` gave."""
    hints = _hints(cls)
    return cls(**{name: _convert(hints[name], plain[name]) for name in hints if name in plain})


def _convert(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = getattr(hint, "__origin__", None)
    if origin is Union:
        inner = [arg for arg in hint.__args__ if arg is not type(None)]
        return _convert(inner[0], value) if len(inner) == 1 else value
    if origin is list:
        return [_convert(hint.__args__[0], item) for item in value]
    if origin is dict:
        return {key: _convert(hint.__args__[1], item) for key, item in value.items()}
    if not isinstance(hint, type):
        return value
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_plain(hint, value)
    if issubclass(hint, Enum):
        return hint(value)
    if hint is datetime and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def _hints(cls: type) -> Dict[str, Any]:
    found = _HINTS.get(cls)
    if found is None:
        hints = get_type_hints(cls)
        found = _HINTS[cls] = {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return found
