"""The OpenAPI document's bodies and answers: routes handle bytes themselves, so the types are named beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

F = TypeVar("F", bound=Callable[..., Any])
_REF = "#/components/schemas/{model}"
_ANSWER_REF = "#/components/schemas/{model}Answer"  # of a record, all fields are there; a body may leave some out


def takes(cls: type[Any]) -> Callable[[F], F]:
    """Mark a route's function with the dataclass that its JSON body becomes."""

    def mark(endpoint: F) -> F:
        endpoint.__dict__["takes"] = cls
        return endpoint

    return mark


def gives(answer: Any) -> Callable[[F], F]:
    """Mark a route's function with the type of its JSON answer: a dataclass, or a list of them."""

    def mark(endpoint: F) -> F:
        endpoint.__dict__["gives"] = answer
        return endpoint

    return mark


def describe_bodies(document: dict[str, Any], routers: Iterable[APIRouter], *, prefix: str) -> dict[str, Any]:
    """Return the document with the schemas of bodies and answers put in."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute) and "takes" in vars(route.endpoint):
            body = TypeAdapter(vars(route.endpoint)["takes"]).json_schema(ref_template=_REF)
            schemas.update(body.pop("$defs", {}))
            described = {"required": True, "content": {"application/json": {"schema": body}}}
            for method in route.methods or ():
                document["paths"][prefix + route.path][method.lower()]["requestBody"] = described
        if isinstance(route, APIRoute) and "gives" in vars(route.endpoint):
            schema = TypeAdapter(vars(route.endpoint)["gives"]).json_schema(
                ref_template=_ANSWER_REF, schema_generator=_AnswerSchema, mode="serialization"
            )
            schemas.update({f"{name}Answer": one for name, one in schema.pop("$defs", {}).items()})
            for method in route.methods or ():
                responses = document["paths"][prefix + route.path][method.lower()]["responses"]
                responses[str(route.status_code or 200)]["content"] = {"application/json": {"schema": schema}}
    return document


class _AnswerSchema(GenerateJsonSchema):
    """`json_answer` writes every field of a record, also those that have a default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True
