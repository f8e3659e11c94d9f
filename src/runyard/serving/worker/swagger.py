"""The OpenAPI documents of a service, in the versions 2, 3 and 3.1."""

from __future__ import annotations

import copy
import json
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Tuple

from runyard.serving.protocol import Json
from runyard.serving.worker.script import Script, data_parameters
from runyard.serving.worker.typed import hints_of, schema_of

_OWN_FILES = {"2": ("swagger.json", "swagger2.json"), "3": ("swagger3.json",), "3.1": ("swagger3.1.json",)}
_ALIASES = {"2": ("2", "2.0"), "3": ("3", "3.0"), "3.1": ("3.1",)}
_ANY: Json = {"type": "object", "example": {}}
_ERROR = {"type": "object", "properties": {"message": {"type": "string"}}}


def make_documents(script: Script, app_root: str, variables: Mapping[str, str]) -> Dict[str, str]:
    """Return the text of each version that this service has, by the names that clients ask for."""
    taken, given = _schemas(script)
    known = _versions(script.run)
    documents = {}
    for version, names in _ALIASES.items():
        text = _read_own(app_root, _OWN_FILES[version])
        if text is None and set(names) & set(known):
            text = json.dumps(document(version, taken, given, variables))
        if text is not None:
            documents.update(dict.fromkeys(names, text))
    return documents


def document(version: str, taken: Json, given: Json, variables: Mapping[str, str]) -> Json:
    """Return one document; `taken` and `given` are the schemas of a request and of an answer."""
    name = variables.get("SERVICE_NAME") or "ML service"
    prefix = variables.get("SERVICE_PATH_PREFIX", "").strip("/")
    prefix = f"/{prefix}" if prefix else ""
    info = {
        "title": name,
        "description": f"The service {name}: send a request to /score and get the model's answer.",
        "version": variables.get("SERVICE_VERSION") or "1.0",
    }
    is_two = version == "2"
    place = "#/definitions/" if is_two else "#/components/schemas/"
    schemas = {"ServiceInput": taken, "ServiceOutput": given, "ErrorResponse": _ERROR}
    schemas = {title: copy.deepcopy(schema) for title, schema in schemas.items()}
    paths = {
        f"{prefix}/": {
            "get": _operation("ServiceHealthCheck", "Says that the service is up.", {"type": "string"}, is_two, place)
        },
        f"{prefix}/score": {"post": _score_operation(is_two, place)},
        f"{prefix}/swagger.json": {
            "get": {
                **_operation("GetSwaggerSpec", "This document.", {"type": "object"}, is_two, place),
                "parameters": [_version_parameter(is_two)],
            }
        },
    }
    if is_two:
        return {
            "swagger": "2.0",
            "info": info,
            "schemes": ["https", "http"],
            "consumes": ["application/json"],
            "produces": ["application/json"],
            "securityDefinitions": {
                "Bearer": {"type": "apiKey", "name": "Authorization", "in": "header", "description": "Bearer <key>"}
            },
            "paths": paths,
            "definitions": schemas,
        }
    return {
        "openapi": "3.1.0" if version == "3.1" else "3.0.3",
        "info": info,
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"Bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _score_operation(is_two: bool, place: str) -> Json:
    operation = _operation("RunMLService", "Answers with the model.", {"$ref": f"{place}ServiceOutput"}, is_two, place)
    operation["security"] = [{"Bearer": []}]
    taken = {"$ref": f"{place}ServiceInput"}
    if is_two:
        operation["parameters"] = [{"name": "serviceInputPayload", "in": "body", "required": True, "schema": taken}]
    else:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": taken}}}
    return operation


def _operation(name: str, text: str, schema: Json, is_two: bool, place: str) -> Json:
    def answer(text: str, schema: Json) -> Json:
        said: Json = {"description": text}
        return {**said, "schema": schema} if is_two else {**said, "content": {"application/json": {"schema": schema}}}

    error = answer("It failed.", {"$ref": f"{place}ErrorResponse"})
    return {
        "operationId": name,
        "description": text,
        "responses": {"200": answer("It worked.", schema), "default": error},
    }


def _version_parameter(is_two: bool) -> Json:
    parameter: Json = {"name": "version", "in": "query", "required": False}
    kind = {"type": "string", "enum": ["2", "3", "3.1"]}
    return {**parameter, **kind} if is_two else {**parameter, "schema": kind}


def _schemas(script: Script) -> Tuple[Json, Json]:
    if script.scorer is not None:
        return _typed_schemas(script)
    util = sys.modules.get("inference_schema.schema_util")
    if util is not None and util.is_schema_decorated(script.run):
        return dict(util.get_input_schema(script.run)), dict(util.get_output_schema(script.run))
    return _ANY, _ANY


def _typed_schemas(script: Script) -> Tuple[Json, Json]:
    hints, parameters = hints_of(script.run), data_parameters(script.run)
    taken = {one.name: schema_of(hints.get(one.name, Any)) for one in parameters}
    given = schema_of(hints.get("return", Any))
    if script.batching is not None:  # lists of items inside, single items outside
        taken = {name: schema.get("items", {}) for name, schema in taken.items()}
        given = given.get("items", {})
    needed = [one.name for one in parameters if one.default is one.empty]
    schema: Json = {"type": "object", "properties": taken}
    return ({**schema, "required": needed} if needed else schema), given or {}


def _versions(run: Callable[..., Any]) -> List[str]:
    util = sys.modules.get("inference_schema.schema_util")
    return [str(one) for one in util.get_supported_versions(run)] if util is not None else ["2.0", "3.0", "3.1"]


def _read_own(app_root: str, names: Tuple[str, ...]) -> str | None:
    for name in names:
        try:
            with open(os.path.join(app_root, name), encoding="utf-8") as file:
                text = file.read()
            json.loads(text)
            return text
        except FileNotFoundError:
            continue
    return None
