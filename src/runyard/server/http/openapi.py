"""The OpenAPI document: what routes say of their bodies and answers, and how that becomes schemas.

Routes read and write bytes themselves, so decorators name the types: `takes` and `gives` the dataclasses of JSON bodies
and answers, `takes_frames` and `sends` what is no JSON, `reads` the parameters of a query that a route reads by hand.
The schemas are made from those classes when the document is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from runyard.core.errors import RunyardError

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")
Schema = dict[str, Any]
FRAMES = "application/x-runyard-frames"
BYTES = "application/octet-stream"
ZIP = "application/zip"
EVENTS = "text/event-stream"
TEXTS = (EVENTS,)
_BODY_REF = "#/components/schemas/{model}"
_ANSWER_REF = "#/components/schemas/{model}Answer"  # of a record, all fields are there; a body may leave some out
_ERROR = {"$ref": "#/components/responses/Error"}


@dataclass(frozen=True)
class QueryParameter:
    """A parameter of a query. `kind` is JSON Schema's word for its type."""

    name: str
    kind: str
    about: str
    repeated: bool = False


@dataclass(frozen=True)
class ErrorBody:
    """What happened, why, and what to do next. `code` is one of the classes of errors and never changes."""

    code: str
    what: str
    why: str
    hint: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorEnvelope:
    """The body of every answer with a status of 400 or above."""

    error: ErrorBody


@dataclass(frozen=True)
class DeletedName:
    deleted: str


def error_body(error: RunyardError) -> ErrorBody:
    plain = error.to_plain()
    return ErrorBody(plain["code"], plain["what"], plain["why"], plain["hint"], plain.get("details", {}))


def takes(cls: type[Any]) -> Callable[[F], F]:
    """Mark a route's function with the dataclass that its JSON body becomes."""
    return _marked("takes", cls)


def takes_frames(endpoint: F) -> F:
    """Mark a route's function whose body is frames (`core.formats.frames`)."""
    return _marked("takes_kind", FRAMES)(endpoint)


def takes_any(endpoint: F) -> F:
    """Mark a route's function whose body is JSON of any shape."""
    return _marked("takes_kind", "application/json")(endpoint)


def gives(answer: Any, *, also: int | None = None) -> Callable[[F], F]:
    """Mark a route's function with the type of its JSON answer. `also`: another status with the same answer."""

    def mark(endpoint: F) -> F:
        return _marked("also", also)(_marked("gives", answer)(endpoint))

    return mark


def sends(media_type: str, *, also: int | None = None) -> Callable[[F], F]:
    """Mark a route's function with the media type of an answer that is no JSON."""

    def mark(endpoint: F) -> F:
        return _marked("also", also)(_marked("sends", media_type)(endpoint))

    return mark


def reads(*parameters: QueryParameter) -> Callable[[F], F]:
    """Mark a route's function with the parameters that it reads from the query itself."""
    return _marked("reads", parameters)


def _marked(key: str, value: object) -> Callable[[F], F]:
    def mark(endpoint: F) -> F:
        endpoint.__dict__[key] = value
        return endpoint

    return mark


def make_document(app: FastAPI, routers: Iterable[APIRouter], *, prefix: str) -> Schema:
    """Return the document of the app, with what the routes of these routers say of themselves."""
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    found = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    routes = [route for route in found if prefix + route.path_format in document["paths"]]
    schemas = _Schemas(routes)
    for route in routes:
        for method in route.methods or ():
            _describe(document["paths"][prefix + route.path_format][method.lower()], route, schemas)
    kept = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # a wrong parameter is answered as every other error
        kept.pop(name, None)
    kept.update(schemas.components)
    document["components"]["responses"] = {"Error": _content("What went wrong.", schemas.error)}
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A user's, the owner's or a run's token."}
    }
    document["security"] = [{"token": []}]
    document["tags"] = [{"name": tag, "description": about} for tag, about in sorted(_tags(routes).items())]
    return document


class _Schemas:
    """The schemas of all bodies, and of all answers, each made at once: classes of one name get different names."""

    def __init__(self, routes: Iterable[APIRoute]) -> None:
        marks = {route.endpoint: vars(route.endpoint) for route in routes}
        bodies = {mark["takes"] for mark in marks.values() if "takes" in mark}
        answers = {repr(mark["gives"]): mark["gives"] for mark in marks.values() if "gives" in mark}
        self._bodies, bodies_found = TypeAdapter.json_schemas(
            [(cls, "validation", TypeAdapter(cls)) for cls in sorted({*bodies, ErrorEnvelope}, key=repr)],
            ref_template=_BODY_REF,
        )
        self._answers, answers_found = TypeAdapter.json_schemas(
            [(key, "serialization", TypeAdapter(cls)) for key, cls in sorted(answers.items())],
            ref_template=_ANSWER_REF,
            schema_generator=_AnswerSchema,
        )
        answered = {f"{name}Answer": schema for name, schema in answers_found.get("$defs", {}).items()}
        self._answers, answered = _with_short_names(self._answers), _with_short_names(answered)
        self.components: Schema = {**bodies_found.get("$defs", {}), **answered}
        self.error = self._bodies[(ErrorEnvelope, "validation")]

    def body(self, cls: type[Any]) -> Schema:
        return self._bodies[(cls, "validation")]

    def answer(self, cls: Any) -> Schema:
        return self._answers[(repr(cls), "serialization")]


def _with_short_names(schemas: Mapping[K, Schema]) -> dict[K, Schema]:
    """Return the schemas without a second `Answer` in the names of classes that end with it themselves."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {short(key): short(item) for key, item in value.items()}
        if isinstance(value, list):
            return [short(item) for item in value]
        return value.replace("AnswerAnswer", "Answer") if isinstance(value, str) else value

    return {short(key): short(schema) for key, schema in schemas.items()}


class _AnswerSchema(GenerateJsonSchema):
    """`json_answer` writes every field of a record, also those that have a default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True


def _describe(operation: Schema, route: APIRoute, schemas: _Schemas) -> None:
    mark = vars(route.endpoint)
    if "takes" in mark:
        operation["requestBody"] = {"required": True, "content": _json(schemas.body(mark["takes"]))}
    elif "takes_kind" in mark:
        operation["requestBody"] = {"required": True, "content": {mark["takes_kind"]: _schema_of(mark["takes_kind"])}}
    operation.setdefault("parameters", []).extend(_parameter(one) for one in mark.get("reads", ()))
    responses = operation["responses"]
    responses.pop("422", None)
    first = responses[str(route.status_code or 200)]
    if "gives" in mark:
        first["content"] = _json(schemas.answer(mark["gives"]))
    elif "sends" in mark:
        first["content"] = {mark["sends"]: _schema_of(mark["sends"])}
    if mark.get("also") is not None:
        responses[str(mark["also"])] = {**first, "description": _ALSO[mark["also"]]}
    responses["default"] = _ERROR
    if mark.get("open"):
        operation["security"] = []


_ALSO = {200: "It was there already.", 206: "The bytes that the `Range` header asked for."}


def opened(endpoint: F) -> F:
    """Mark a route's function that answers without a token."""
    return _marked("open", True)(endpoint)


def _parameter(one: QueryParameter) -> Schema:
    schema: Schema = {"type": one.kind}
    return {
        "name": one.name,
        "in": "query",
        "required": False,
        "description": one.about,
        "schema": {"type": "array", "items": schema} if one.repeated else schema,
    }


def _schema_of(media_type: str) -> Schema:
    if media_type == "application/json":
        return {"schema": {}}
    return {"schema": {"type": "string"} if media_type in TEXTS else {"type": "string", "format": "binary"}}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _content(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": _json(schema)}


def _tags(routes: Iterable[APIRoute]) -> Mapping[str, str]:
    """Return what each tag is about: the first line of the module that has its routes."""
    found: dict[str, str] = {}
    for route in routes:
        about = (sys.modules[route.endpoint.__module__].__doc__ or "").partition("\n")[0]
        for tag in route.tags:
            found.setdefault(str(tag), about)
    return found
