"""Routes of web services: deploy, change, roll back, delete, keys and tokens. Requests to them go to the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.names import check_workspace_name
from runyard.core.webservices import (
    NewService,
    ServiceAnswer,
    ServiceChange,
    ServiceDescription,
    Webservice,
    check_service_name,
)
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import DeletedName, gives, takes, takes_any
from runyard.server.http.requests import parse, with_json
from runyard.server.serving.forwarding import Forwarded, openapi_of
from runyard.server.serving.samples import sample_of

router = APIRouter(prefix="/workspaces/{workspace}/services", tags=["services"])
MOST_LINES = 100_000


@dataclass(frozen=True)
class Rollback:
    """`revision` None: the one before."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    revision: Optional[int] = None


@dataclass(frozen=True)
class NewKey:
    """`key` is Primary or Secondary; `value` None: a new one is made."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    key: str
    value: Optional[str] = None


@dataclass(frozen=True)
class ChangedKey:
    key: str


@dataclass(frozen=True)
class ServiceLog:
    lines: list[str]


@dataclass(frozen=True)
class ServiceKeys:
    primary: str
    secondary: str


@dataclass(frozen=True)
class ServiceToken:
    token: str
    refresh_after: datetime
    expires_at: datetime


@router.get("")
@gives(list[Webservice])
def list_services(workspace: str, request: Request) -> Response:
    """List the workspace's services, by name."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    return json_answer(call.services.deployer.list_services(check_workspace_name(workspace)))


@router.get("/{name}")
@gives(Webservice)
def get_service(workspace: str, name: str, request: Request) -> Response:
    """Return one service with its revisions and replicas."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    return json_answer(call.services.deployer.get(*_place(workspace, name)))


@router.post("/{name}", status_code=201)
@gives(Webservice)
@takes(NewService)
async def deploy_service(workspace: str, name: str, request: Request) -> Response:
    """Deploy a service; 409 when the name is taken and `overwrite` is false."""
    return await with_json(request, lambda body: _deploy(call_of(request), workspace, name, body))


@router.patch("/{name}")
@gives(Webservice)
@takes(ServiceChange)
async def change_service(workspace: str, name: str, request: Request) -> Response:
    """Change a service, or serve a new revision of it; 409 while another one is starting."""
    return await with_json(request, lambda body: _change(call_of(request), workspace, name, body))


@router.delete("/{name}")
@gives(DeletedName)
def delete_service(workspace: str, name: str, request: Request) -> Response:
    """Answer what is under way and end the service; twice is fine."""
    call = call_of(request)
    _require_change(call, workspace, name)
    call.services.deployer.delete(*_place(workspace, name))
    return json_answer(DeletedName(name))


@router.post("/{name}/rollback")
@gives(Webservice)
@takes(Rollback)
async def roll_back_service(workspace: str, name: str, request: Request) -> Response:
    """Serve an earlier revision again."""
    return await with_json(request, lambda body: _rollback(call_of(request), workspace, name, body))


@router.get("/{name}/keys")
@gives(ServiceKeys)
def get_service_keys(workspace: str, name: str, request: Request) -> Response:
    """Return both keys."""
    call = call_of(request)
    _require_change(call, workspace, name)
    return json_answer(ServiceKeys(*call.services.deployer.keys(*_place(workspace, name))))


@router.post("/{name}/keys")
@gives(ChangedKey)
@takes(NewKey)
async def set_service_key(workspace: str, name: str, request: Request) -> Response:
    """Replace one of the keys."""
    return await with_json(request, lambda body: _set_key(call_of(request), workspace, name, body))


@router.post("/{name}/token")
@gives(ServiceToken)
def make_service_token(workspace: str, name: str, request: Request) -> Response:
    """Return a token that opens the service for a day."""
    call = call_of(request)
    _require_change(call, workspace, name)
    return json_answer(ServiceToken(*call.services.deployer.token(*_place(workspace, name))))


@router.get("/{name}/log")
@gives(ServiceLog)
def get_service_log(workspace: str, name: str, request: Request, lines: int = 1000) -> Response:
    """Return the last lines about requests to the service; what scripts print is in the logs of its replicas."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    found = call.services.deployer.access_log(*_place(workspace, name), min(max(1, lines), MOST_LINES))
    return json_answer(ServiceLog(found))


@router.get("/{name}/openapi")
@gives(ServiceDescription)
def get_service_openapi(workspace: str, name: str, request: Request) -> Response:
    """Return the OpenAPI document of the service, null when it has none or is not ready, and a body to try it with."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    asked = Forwarded("swagger.json?version=3", "GET")
    document = openapi_of(call.services.deployer.ask(*_place(workspace, name), asked))
    return json_answer(ServiceDescription(document, sample_of(document)))


@router.post("/{name}/try")
@gives(ServiceAnswer)
@takes_any
async def try_service(
    workspace: str, name: str, request: Request, path: str = "score", method: str = "POST"
) -> Response:
    """Send the body to the service, with its key, and return what it answered, whatever the status."""
    content_type = request.headers.get("service-content-type", "application/json")
    return await with_json(
        request, lambda body: _try(call_of(request), workspace, name, Forwarded(path, method, body, content_type))
    )


def _try(call: RequestContext, workspace: str, name: str, asked: Forwarded) -> Response:
    _require_change(call, workspace, name)
    return json_answer(call.services.deployer.ask(*_place(workspace, name), asked))


def _deploy(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    call.require("put_service", workspace=workspace)
    wanted = parse(NewService, body)
    place = _place(workspace, name)
    call.services.store.get_workspace(place[0])
    if wanted.overwrite:
        _require_change(call, workspace, name)
    made = call.services.deployer.create(*place, wanted, owner=call.user, user=wanted.revision.created_by)
    return json_answer(made, status=201)


def _change(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    _require_change(call, workspace, name)
    return json_answer(call.services.deployer.change(*_place(workspace, name), parse(ServiceChange, body)))


def _rollback(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    _require_change(call, workspace, name)
    return json_answer(call.services.deployer.rollback(*_place(workspace, name), parse(Rollback, body).revision))


def _set_key(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    _require_change(call, workspace, name)
    wanted = parse(NewKey, body)
    call.services.deployer.set_key(*_place(workspace, name), wanted.key, wanted.value)
    return json_answer(ChangedKey(wanted.key))


def _require_change(call: RequestContext, workspace: str, name: str) -> None:
    def owners() -> list[str | None]:
        return [one.owner for one in call.services.deployer.list_services(workspace) if one.name == name]

    call.require_change("change_service", owners, workspace=workspace)


def _place(workspace: str, name: str) -> tuple[str, str]:
    return check_workspace_name(workspace), check_service_name(name)
