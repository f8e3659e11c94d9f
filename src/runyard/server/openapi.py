"""The OpenAPI document's bodies: routes read bytes themselves, so what they take is said beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

F = TypeVar("F", bound=Callable[..., Any])
_REF = "#/components/schemas/{model}"


def takes(cls: type[Any]) -> Callable[[F], F]:
    """Mark a route's function with the dataclass that its JSON body becomes."""

    def mark(endpoint: F) -> F:
        endpoint.__dict__["takes"] = cls
        return endpoint

    return mark


def describe_bodies(document: dict[str, Any], routers: Iterable[APIRouter], *, prefix: str) -> dict[str, Any]:
    """Return the document with every body's schema put in."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute) and "takes" in vars(route.endpoint):
            body = TypeAdapter(vars(route.endpoint)["takes"]).json_schema(ref_template=_REF)
            schemas.update(body.pop("$defs", {}))
            described = {"required": True, "content": {"application/json": {"schema": body}}}
            for method in route.methods or ():
                document["paths"][prefix + route.path][method.lower()]["requestBody"] = described
    return document
