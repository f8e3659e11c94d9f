"""The HTTP API as Markdown, from the OpenAPI document: docs/reference/http-api.md."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any

from fastapi import FastAPI

from runyard.server.app import API, ROUTERS, new_app
from runyard.server.http.api_page import ApiOperation, Body, iter_schemas, iter_tags, type_of
from runyard.server.http.openapi import make_document
from runyard.server.routes import signin

WIDTH = 120
INTRODUCTION = """\
# HTTP API

Written by `make docs` from the server's OpenAPI document. A server shows the same at `/api/docs`, and the document at
`/api/v1/openapi.json`: clients in other languages can be generated from it.

Each request needs `Authorization: Bearer TOKEN`; an error has the body [ErrorEnvelope](#errorenvelope) and a status of
400 or above. Who may call what is in [Rights by route](rights.md); frames, limits and tokens are explained in
[HTTP API, version 1](../internals/http-api.md).
"""


def document() -> dict[str, Any]:
    app: FastAPI = new_app()
    app.include_router(signin.router, prefix=API)
    return make_document(app, (*ROUTERS, signin.router), prefix=API)


def page() -> str:
    found = document()
    parts = [INTRODUCTION]
    for tag, about, operations in iter_tags(found):
        parts.append(f"## {tag}\n\n{about}\n")
        parts += [_operation(one) for one in operations]
    parts.append("## Schemas\n")
    parts += [_schema(name, schema) for name, schema in iter_schemas(found)]
    return "\n".join(parts)


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _operation(one: ApiOperation) -> str:
    rows = [
        f"| `{item['name']}` in {item['in']} | {_cell(type_of(item['schema'], _link))} "
        f"| {_cell(item.get('description', ''))} |"
        for item in one.parameters
    ]
    if one.takes is not None:
        rows.append(f"| body | {_body(one.takes)} | |")
    rows += [f"| answer {status} | {_body(body)} | |" for status, body in one.gives]
    table = "\n".join(["| | type | |", "|---|---|---|", *rows])
    about = fill(one.about, WIDTH)
    return f"### {one.id}\n\n`{one.method} {one.path}`\n\n{about}\n\n{table}\n"


def _body(body: Body) -> str:
    kind = _cell(type_of(body.schema, _link))
    return kind if body.media_type == "application/json" else f"{kind}, `{body.media_type}`"


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    about = fill(schema.get("description", ""), WIDTH)
    fields = schema.get("properties", {})
    if not fields:
        return f"### {name}\n\n{fill(f'{about} {type_of(schema, _link)}', WIDTH)}\n"
    required = schema.get("required", ())
    rows = [
        f"| `{key}` | {_cell(type_of(one, _link))} | {'' if key in required else 'optional'} |"
        for key, one in fields.items()
    ]
    table = "\n".join(["| field | type | |", "|---|---|---|", *rows])
    return f"### {name}\n\n" + (f"{about}\n\n" if about else "") + f"{table}\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
