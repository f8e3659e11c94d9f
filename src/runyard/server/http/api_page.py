"""The page of the HTTP API at `/api/docs`: every operation and schema of the OpenAPI document, as HTML without scripts.

`scripts/http_api.py` writes the same as Markdown for the documentation.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

Schema = Mapping[str, Any]
Link = Callable[[str], str]  # a schema's name → text that leads to it

_STYLE = """
:root{color-scheme:light dark;--page:#fff;--line:#dfe3e9;--text:#1b1f27;--soft:#586172;--code:#eff1f4;--link:#1a4fb4}
@media(prefers-color-scheme:dark){
:root{--page:#0f1218;--line:#2a303c;--text:#e6e9ef;--soft:#a3acbc;--code:#161a22;--link:#8ab4ff}}
body{margin:0 auto;max-width:1100px;padding:24px 16px;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
a{color:var(--link)}code{font:13px/1.5 ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
details{border-top:1px solid var(--line);padding:8px 0}summary{cursor:pointer}
summary span,p.about{color:var(--soft)}table{border-collapse:collapse;margin:8px 0;width:100%}
td,th{border-top:1px solid var(--line);padding:4px 12px 4px 0;text-align:left;vertical-align:top}
"""
POLICY = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-"
    + b64encode(sha256(_STYLE.encode()).digest()).decode()
    + "'"
)


@dataclass(frozen=True)
class Body:
    media_type: str
    schema: Schema


@dataclass(frozen=True)
class ApiOperation:
    id: str
    method: str
    path: str
    about: str
    parameters: tuple[Mapping[str, Any], ...]
    takes: Body | None
    gives: tuple[tuple[str, Body], ...]  # by status; errors apart


def iter_tags(document: Schema) -> Iterator[tuple[str, str, list[ApiOperation]]]:
    """Yield each tag with what it is about and its operations."""
    for tag in document["tags"]:
        found = [
            _operation(method, path, said)
            for path, methods in document["paths"].items()
            for method, said in methods.items()
            if tag["name"] in said["tags"]
        ]
        yield tag["name"], tag["description"], found


def iter_schemas(document: Schema) -> Iterator[tuple[str, Schema]]:
    yield from sorted(document["components"]["schemas"].items())


def type_of(schema: Schema, link: Link) -> str:
    """Return a schema in a few words."""
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(one, link) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(type_of(one, link) for one in schema['prefixItems'])}]"
        return f"list of {type_of(schema.get('items', {}), link)}"
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        return f"object of {type_of(values, link)}"
    if schema.get("format") == "binary":
        return "bytes"
    return str(schema.get("format") or schema.get("type") or "any")


def _operation(method: str, path: str, said: Schema) -> ApiOperation:
    answers = {status: _body(one) for status, one in said["responses"].items() if "content" in one}
    return ApiOperation(
        said["operationId"],
        method.upper(),
        path,
        said.get("description", ""),
        tuple(said.get("parameters", ())),
        _body(said["requestBody"]) if "requestBody" in said else None,
        tuple(sorted(answers.items())),
    )


def _body(described: Schema) -> Body:
    [(media_type, content)] = described["content"].items()
    return Body(media_type, content.get("schema", {}))


def page(document: Schema) -> bytes:
    """Return the page."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>HTTP API · Runyard</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><h1>HTTP API</h1><p>Every request needs a token: "
        "<code>Authorization: Bearer TOKEN</code>. An error is <a href='#ErrorEnvelope'>ErrorEnvelope</a>. "
        "The same as an <a href='/api/v1/openapi.json'>OpenAPI document</a>.</p>"
    ]
    for tag, about, operations in iter_tags(document):
        parts.append(f'<h2 id="{tag}">{tag}</h2><p class="about">{escape(about)}</p>')
        parts += [_operation_html(one) for one in operations]
    parts.append("<h2>Schemas</h2>")
    parts += [_schema_html(name, schema) for name, schema in iter_schemas(document)]
    return "".join([*parts, "</body></html>"]).encode()


def _link(name: str) -> str:
    return f'<a href="#{name}">{name}</a>'


def _operation_html(one: ApiOperation) -> str:
    rows = [
        (f"<code>{escape(item['name'])}</code> in {item['in']}", type_of(item["schema"], _link),
         escape(item.get("description", "")))
        for item in one.parameters
    ]  # fmt: skip
    if one.takes is not None:
        rows.append(("body", _body_html(one.takes), ""))
    rows += [(f"answer {status}", _body_html(body), "") for status, body in one.gives]
    cells = "".join(f"<tr><td>{name}</td><td>{kind}</td><td>{about}</td></tr>" for name, kind, about in rows)
    return (
        f'<details id="{one.id}"><summary><code><b>{one.method}</b> {escape(one.path)}</code> '
        f"<span>{escape(one.about.partition(chr(10))[0])}</span></summary><p>{escape(one.about)}</p>"
        f"<p><code>{one.id}</code></p><table>{cells}</table></details>"
    )


def _body_html(body: Body) -> str:
    return f"{type_of(body.schema, _link)} <code>{body.media_type}</code>"


def _schema_html(name: str, schema: Schema) -> str:
    fields = schema.get("properties", {})
    rows = "".join(
        f"<tr><td><code>{escape(key)}</code></td><td>{type_of(one, _link)}</td>"
        f"<td>{'' if key in schema.get('required', ()) else 'optional'}</td></tr>"
        for key, one in fields.items()
    )
    shown = f"<table>{rows}</table>" if fields else f"<p>{type_of(schema, _link)}</p>"
    return f'<h3 id="{name}">{name}</h3><p class="about">{escape(schema.get("description", ""))}</p>{shown}'
