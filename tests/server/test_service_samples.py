"""The body that a service is tried with, made of its OpenAPI document; and paths that a request may not have."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.core.errors import InvalidArgument
from runyard.server.net.gateway_listener import GatewayListener
from runyard.server.serving.forwarding import Forwarded, forward
from runyard.server.serving.samples import sample_of


def document(schema: dict[str, Any], **schemas: Any) -> dict[str, Any]:
    body = {"requestBody": {"content": {"application/json": {"schema": schema}}}}
    return {"paths": {"/": {"get": {}}, "/api/score": {"post": body}}, "components": {"schemas": schemas}}


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        ({"example": {"data": [[1, 2]]}, "type": "object"}, {"data": [[1, 2]]}),
        ({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}, {"n": 1, "s": "text"}),
        ({"type": "array", "items": {"type": "number"}}, [1.0]),
        ({"enum": ["red", "green"]}, "red"),
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, True),
        ({"type": "string", "default": "hello"}, "hello"),
        ({"$ref": "#/components/schemas/Row"}, {"x": 1.0}),
        ({"$ref": "#/components/schemas/Missing"}, 1),
    ],
)
def test_a_sample_fits_the_schema(schema: dict[str, Any], sample: object) -> None:
    row = {"type": "object", "properties": {"x": {"type": "number"}}}

    assert sample_of(document(schema, Row=row)) == sample


def test_a_schema_of_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}

    found: Any = sample_of(document({"$ref": "#/components/schemas/Node"}, Node=node))

    assert isinstance(found["next"]["next"], dict)


@pytest.mark.parametrize("given", [None, {}, {"paths": {}}, {"paths": {"/score": {"post": "?"}}}, {"paths": 3}])
def test_a_document_that_says_nothing_has_no_sample(given: dict[str, Any] | None) -> None:
    assert sample_of(given) is None


@pytest.mark.parametrize("path", ["../other/score", "a/../../b", "score\r\nX: y", "sc ore", "sc%2e%2e/x", "ä", "a#b"])
def test_a_request_stays_below_the_service(path: str) -> None:
    with pytest.raises(InvalidArgument, match="not a path of a service"):
        forward(GatewayListener(), 1, "name", "", Forwarded(path))


def test_a_method_is_one_of_http() -> None:
    with pytest.raises(InvalidArgument, match="There is no method"):
        forward(GatewayListener(), 1, "name", "", Forwarded(method="GET / HTTP/1.1"))
