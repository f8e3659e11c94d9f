"""Dataclasses to JSON-ready values and back. Unknown fields of a newer peer are dropped.

A field whose metadata has an `alias` has that name as a plain value; pydantic reads the same metadata. One that is
`sparse` is left out when it is empty: an older peer, which may refuse what it does not know, sees it only in use.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple, Type, TypeVar, Union, get_type_hints

from runyard.core.lazy_dataclass import is_dataclass

T = TypeVar("T")
Convert = Callable[[Any], Any]
_KEYS: Dict[type, List[Tuple[str, str]]] = {}
_RENAMED: Dict[type, bool] = {}
_FIELDS: Dict[type, List[Tuple[str, str, Optional[Convert]]]] = {}
_SPARSE: Dict[type, FrozenSet[str]] = {}
_SCALARS = frozenset({str, int, float, bool, type(None)})


def to_plain(value: Any) -> Any:
    """Return `value` as dicts, lists, strings and numbers that `json.dumps` takes."""
    if type(value) in _SCALARS:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        sparse = _sparse(type(value))
        return {
            key: to_plain(getattr(value, name))
            for name, key in _keys(type(value))
            if name not in sparse or getattr(value, name)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def shallow(value: object) -> Dict[str, object]:
    """Return the fields of a dataclass as they are, by their plain names."""
    cls = type(value)
    if cls not in _RENAMED:
        _RENAMED[cls] = any(name != key for name, key in _keys(cls))
    return {key: getattr(value, name) for name, key in _keys(cls)} if _RENAMED[cls] else vars(value)


def from_plain(cls: Type[T], plain: Mapping[str, Any]) -> T:
    """Return a `cls` made from what `to_plain` gave."""
    found = {}
    for name, key, convert in _fields(cls):
        if key in plain:
            value = plain[key]
            found[name] = value if convert is None or value is None else convert(value)
    return cls(**found)


def _fields(cls: type) -> List[Tuple[str, str, Optional[Convert]]]:
    """Return a class's fields with what makes each from a plain value; looked up once, lists of runs are long."""
    found = _FIELDS.get(cls)
    if found is None:
        hints = get_type_hints(cls)
        found = _FIELDS[cls] = [(name, key, _converter(hints[name])) for name, key in _keys(cls)]
    return found


def _converter(hint: Any) -> Optional[Convert]:
    """Return what makes a value of type `hint`; None when it is plain already."""
    origin = getattr(hint, "__origin__", None)
    if origin is Union:
        inner = [arg for arg in hint.__args__ if arg is not type(None)]
        return _converter(inner[0]) if len(inner) == 1 else None
    if origin is list:
        return _each_item(_converter(hint.__args__[0]))
    if origin is dict:
        return _each_value(_converter(hint.__args__[1]))
    if not isinstance(hint, type):
        return None
    if is_dataclass(hint):
        return lambda value: value if isinstance(value, hint) else from_plain(hint, value)
    if issubclass(hint, Enum):
        return hint
    if hint is datetime:
        return lambda value: datetime.fromisoformat(value) if isinstance(value, str) else value
    return None


def _each_item(convert: Optional[Convert]) -> Convert:
    if convert is None:
        return lambda items: [*items]
    known = convert
    return lambda items: [None if item is None else known(item) for item in items]


def _each_value(convert: Optional[Convert]) -> Convert:
    if convert is None:
        return lambda items: dict(items.items())
    known = convert
    return lambda items: {key: None if item is None else known(item) for key, item in items.items()}


def _keys(cls: type) -> List[Tuple[str, str]]:
    """Return the names of a class's fields, each with its name as a plain value."""
    found = _KEYS.get(cls)
    if found is None:
        fields = dataclasses.fields(cls)
        found = _KEYS[cls] = [(field.name, field.metadata.get("alias", field.name)) for field in fields]
    return found


def _sparse(cls: type) -> FrozenSet[str]:
    found = _SPARSE.get(cls)
    if found is None:
        fields = dataclasses.fields(cls)
        found = _SPARSE[cls] = frozenset(field.name for field in fields if field.metadata.get("sparse"))
    return found
