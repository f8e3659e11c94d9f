"""A body to try a service with, out of its OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEPTH = 12  # schemas may refer to themselves
_BY_TYPE: dict[str, object] = {"string": "text", "integer": 1, "number": 1.0, "boolean": True, "null": None}


def sample_of(document: Mapping[str, Any] | None) -> object | None:
    """Return the example of a request, else a value that fits its schema; None when the document says nothing of it."""
    schema = _schema(document or {})
    return None if schema is None else _value(schema, document or {}, DEPTH)


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of the body that is scored: of `/score`, else of the first path that takes a body."""
    paths = _table(document.get("paths"))
    for path in sorted(paths, key=lambda name: not name.endswith("/score")):
        post = _table(_table(paths[path]).get("post"))
        content = _table(_table(post.get("requestBody")).get("content"))
        for kind in (*(["application/json"] if "application/json" in content else []), *content):
            found = _table(content[kind])
            if "example" in found:
                return {"example": found["example"]}
            if "schema" in found:
                return _table(found["schema"])
    return None


def _value(schema: Mapping[str, Any], document: Mapping[str, Any], depth: int) -> object:
    schema = _resolved(schema, document)
    for name in ("example", "default", "const"):
        if name in schema:
            return schema[name]
    for name in ("examples", "enum"):
        if isinstance(schema.get(name), list) and schema[name]:
            return schema[name][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(name), list) and schema[name]:
            return _value(_table(schema[name][0]), document, depth - 1) if depth else None
    kind = schema.get("type")
    if kind == "array":
        return [_value(_table(schema.get("items")), document, depth - 1)] if depth else []
    if kind == "object" or "properties" in schema:
        inner = _table(schema.get("properties")) if depth else {}
        return {name: _value(_table(one), document, depth - 1) for name, one in inner.items()}
    return _BY_TYPE.get(str(kind), 1)


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(DEPTH):
        place = schema.get("$ref")
        if not isinstance(place, str) or not place.startswith("#/"):
            break
        found: Any = document
        for part in place[2:].split("/"):
            found = _table(found).get(part.replace("~1", "/").replace("~0", "~"))
        schema = _table(found)
    return schema


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
