"""Answers are what the OpenAPI document says of them: every field, no other, each of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Served

ANSWERS = {
    "/workspaces": "/workspaces",
    "/workspaces/{workspace}/experiments": "/workspaces/default/experiments",
    "/workspaces/{workspace}/table": "/workspaces/default/table?column=params.alpha",
    "/workspaces/{workspace}/tally": "/workspaces/default/tally",
    "/workspaces/{workspace}/compute": "/workspaces/default/compute",
    "/runs/{run_id}": "/runs/exp_1",
    "/runs/{run_id}/files": "/runs/exp_1/files",
    "/runs/{run_id}/metrics": "/runs/exp_1/metrics",
    "/environments": "/environments",
    "/users/me": "/users/me",
    "/server": "/server",
}
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


@pytest.mark.parametrize("route", ANSWERS)
def test_an_answer_is_what_the_document_says(route: str, served: Served) -> None:
    served.submit()
    document = served.client.transport.request("GET", "/openapi.json").json()
    described = document["paths"][f"/api/v1{route}"]["get"]["responses"]["200"]
    schema = described["content"]["application/json"]["schema"]

    answer = served.client.transport.request("GET", ANSWERS[route]).json()

    assert list(faults(answer, schema, document, "answer")) == []


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any], place: str) -> list[str]:
    """Return where a value is not what its schema says."""
    if "$ref" in schema:
        return faults(value, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document, place)
    if "anyOf" in schema:
        tried = [faults(value, one, document, place) for one in schema["anyOf"]]
        return min(tried, key=len)
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{place}: {value!r}"]
    if "type" in schema and not isinstance(value, KINDS[schema["type"]]):
        return [f"{place}: {value!r} is no {schema['type']}"]
    if "properties" in schema:
        known = schema["properties"]
        odd = [f"{place}.{name}" for name in known.keys() ^ value.keys()]
        inside = [faults(value[name], known[name], document, f"{place}.{name}") for name in known.keys() & value.keys()]
        return odd + [fault for found in inside for fault in found]
    if schema.get("type") == "array" and "items" in schema:
        return [fault for one in value for fault in faults(one, schema["items"], document, f"{place}[]")]
    return []


def test_control_a_field_too_many_or_of_another_kind_is_found() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "size": {"type": "integer"}}}

    assert faults({"id": "x", "size": 1}, schema, {}, "it") == []
    assert faults({"id": "x", "size": "1"}, schema, {}, "it") == ["it.size: '1' is no integer"]
    assert faults({"id": "x"}, schema, {}, "it") == ["it.size"]
    assert faults({"id": "x", "size": 1, "more": 1}, schema, {}, "it") == ["it.more"]
