"""Workspaces: made on first use."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone

from fastapi import APIRouter, Request, Response

from runyard.core.names import check_workspace_name, make_uuid
from runyard.core.records import Workspace
from runyard.server.access.permissions import RunPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import gives, takes
from runyard.server.http.requests import parse, with_json

router = APIRouter(tags=["workspaces"])


@dataclass(frozen=True)
class WorkspaceBody:
    subscription_id: str = ""
    resource_group: str = ""
    location: str = ""
    tags: dict[str, str] = field(default_factory=dict)


@router.get("/workspaces")
@gives(list[Workspace])
def list_workspaces(request: Request) -> Response:
    """List all workspaces; to a run's code, its own."""
    call = call_of(request)
    own = call.principal.workspace if isinstance(call.principal, RunPrincipal) else None
    call.may("read_workspace", workspace=own)
    return json_answer([found for found in call.services.store.list_workspaces() if own in (None, found.name)])


@router.get("/workspaces/{workspace}")
def get_workspace(workspace: str, request: Request) -> Response:
    """Return one workspace."""
    call = call_of(request)
    call.may("read_workspace", workspace=workspace)
    return json_answer(call.services.store.get_workspace(check_workspace_name(workspace)))


@router.put("/workspaces/{workspace}")
@takes(WorkspaceBody)
async def put_workspace(workspace: str, request: Request) -> Response:
    """Return the workspace of that name, made when there is none."""
    return await with_json(request, lambda body: _put_workspace(call_of(request), workspace, body))


def _put_workspace(call: Call, name: str, body: bytes) -> Response:
    store = call.services.store
    call.may_make(
        "put_workspace", workspace=name, is_there=lambda: name in [one.name for one in store.list_workspaces()]
    )
    wanted = parse(WorkspaceBody, body or b"{}")
    workspace = Workspace(
        id=make_uuid(),
        name=check_workspace_name(name),
        created_at=datetime.now(timezone.utc),
        subscription_id=wanted.subscription_id,
        resource_group=wanted.resource_group,
        location=wanted.location,
        tags=wanted.tags,
        owner=call.user,
    )
    return json_answer(store.put_workspace(workspace))
