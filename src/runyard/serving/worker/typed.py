"""JSON values become what annotations ask for, and annotations become JSON schemas."""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import sys
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union, get_type_hints

from runyard.serving.protocol import Json
from runyard.serving.worker.requests import BadRequest

_PLAIN: Dict[Any, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}
_NONE = type(None)


def hints_of(function: Any) -> Json:
    """Return the annotations of a function; {} where one of them cannot be resolved."""
    try:
        return get_type_hints(function)
    except Exception:
        return {}


def convert(value: Any, kind: Any, where: str) -> Any:
    """Return `value` as an annotation asks for it.

    Raises:
        BadRequest: it is something else; the message names `where`.
    """
    origin, arguments = _origin(kind), _arguments(kind)
    if kind is Any or kind is object or (kind is None and value is None) or isinstance(kind, str):
        return value
    if kind is _NONE:
        return value if value is None else _refuse(value, "null", where)
    if origin is Union or type(kind).__name__ == "UnionType":
        return _convert_any(value, arguments, where)
    if _is_literal(kind):
        return value if value in arguments else _refuse(value, f"one of {list(arguments)}", where)
    if kind in _PLAIN:
        return _convert_plain(value, kind, where)
    if kind is bytes:
        return _convert_bytes(value, where)
    if _is_array(kind):
        return sys.modules["numpy"].asarray(value)
    container = origin or kind
    if container in (list, tuple, set, frozenset, Sequence, _abstract("Sequence"), _abstract("Iterable")):
        return _convert_list(value, container, arguments, where)
    if container in (dict, Mapping, _abstract("Mapping"), _abstract("MutableMapping")):
        return _convert_dict(value, arguments, where)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _convert_dataclass(value, kind, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        known = [member.value for member in kind]
        return kind(value) if value in known else _refuse(value, f"one of {known}", where)
    validate = getattr(kind, "model_validate", None)  # a model of pydantic
    if callable(validate):
        return _call(validate, value, where)
    return value


def schema_of(kind: Any) -> Json:
    """Return the JSON schema of an annotation; {} for what it cannot say."""
    origin, arguments = _origin(kind), _arguments(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is bytes:
        return {"type": "string", "format": "byte"}
    if origin is Union or type(kind).__name__ == "UnionType":
        kinds = [schema_of(one) for one in arguments if one is not _NONE]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if _is_literal(kind):
        return {"enum": list(arguments)}
    if _is_array(kind):
        return {"type": "array", "items": {}}
    container = origin or kind
    if container in (list, tuple, set, frozenset, _abstract("Sequence"), _abstract("Iterable")):
        return {"type": "array", "items": schema_of(arguments[0]) if arguments else {}}
    if container in (dict, _abstract("Mapping"), _abstract("MutableMapping")):
        return {"type": "object", "additionalProperties": schema_of(arguments[1]) if len(arguments) == 2 else {}}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = hints_of(kind)
        fields = dataclasses.fields(kind)
        properties = {one.name: schema_of(hints.get(one.name, Any)) for one in fields}
        return {"type": "object", "properties": properties, "required": [one.name for one in fields if _is_needed(one)]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    make = getattr(kind, "model_json_schema", None)
    return dict(make()) if callable(make) else {}


def _convert_plain(value: Any, kind: Any, where: str) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and is_number:
        return float(value)
    if kind is int and is_number and math.isfinite(value) and value == int(value):
        return int(value)
    if kind in (str, bool) and isinstance(value, kind):
        return value
    return _refuse(value, {"integer": "a whole number", "number": "a number"}.get(_PLAIN[kind], _PLAIN[kind]), where)


def _convert_bytes(value: Any, where: str) -> bytes:
    if isinstance(value, dict) and set(value) == {"b64"}:
        value = value["b64"]
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        return bytes(_refuse(value, "base64 text", where))


def _convert_list(value: Any, container: Any, arguments: Tuple[Any, ...], where: str) -> Any:
    if not isinstance(value, list):
        return _refuse(value, "a list", where)
    if container is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            return _refuse(value, f"a list of {len(arguments)}", where)
        return tuple(convert(one, kind, f"{where}[{at}]") for at, (one, kind) in enumerate(zip(value, arguments)))
    if arguments and arguments[0] is not Any:
        value = [convert(one, arguments[0], f"{where}[{at}]") for at, one in enumerate(value)]
    return container(value) if container in (tuple, set, frozenset) else value


def _convert_dict(value: Any, arguments: Tuple[Any, ...], where: str) -> Any:
    if not isinstance(value, dict):
        return _refuse(value, "an object", where)
    if len(arguments) != 2:
        return value
    return {name: convert(one, arguments[1], f"{where}.{name}") for name, one in value.items()}


def _convert_dataclass(value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, dict):
        return _refuse(value, "an object", where)
    hints, fields = hints_of(kind), dataclasses.fields(kind)
    unknown = sorted(set(value) - {one.name for one in fields})
    missing = [one.name for one in fields if _is_needed(one) and one.name not in value]
    if unknown or missing:
        fault = f"has no {missing[0]!r}" if missing else f"has {unknown[0]!r}, which is unknown"
        raise BadRequest(f"{where} {fault}. Its keys are {', '.join(one.name for one in fields)}.")
    return kind(**{name: convert(one, hints.get(name, Any), f"{where}.{name}") for name, one in value.items()})


def _convert_any(value: Any, kinds: Tuple[Any, ...], where: str) -> Any:
    if value is None and _NONE in kinds:
        return None
    faults: List[BadRequest] = []
    for kind in kinds:
        if kind is not _NONE:
            try:
                return convert(value, kind, where)
            except BadRequest as fault:
                faults.append(fault)
    raise faults[-1] if faults else BadRequest(f"{where} cannot be null.")


def _call(validate: Any, value: Any, where: str) -> Any:
    try:
        return validate(value)
    except ValueError as error:
        raise BadRequest(f"{where}: {error}") from None


def _refuse(value: Any, wanted: str, where: str) -> Any:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    raise BadRequest(f"{where} must be {wanted}, not {shown}.")


def _is_needed(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_array(kind: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and (kind is numpy.ndarray or _origin(kind) is numpy.ndarray)


def _is_literal(kind: Any) -> bool:
    return getattr(_origin(kind), "_name", "") == "Literal"


def _origin(kind: Any) -> Any:
    return getattr(kind, "__origin__", None)


def _arguments(kind: Any) -> Tuple[Any, ...]:
    found = getattr(kind, "__args__", ())
    return tuple(one for one in found if type(one).__name__ != "TypeVar")


def _abstract(name: str) -> Any:
    import collections.abc  # loaded by the interpreter itself

    return getattr(collections.abc, name)
