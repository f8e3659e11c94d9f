"""Routes of the compute targets of a workspace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.compute import ComputeSpec, ComputeTarget, check_target_name
from runyard.core.names import check_plain_name, check_workspace_name
from runyard.engine.compute.admin import check_changes
from runyard.server.access.permissions import RunPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import DeletedName, gives, takes
from runyard.server.http.requests import parse, with_json

router = APIRouter(prefix="/workspaces/{workspace}/compute", tags=["compute"])
OTHER = "another-run"


@dataclass(frozen=True)
class ComputeChange:
    """The settings to change; null keeps the present value."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    min_nodes: Optional[int] = None
    max_nodes: Optional[int] = None
    idle_seconds: Optional[int] = None
    description: Optional[str] = None
    tags: Optional[dict[str, str]] = None
    is_stopped: Optional[bool] = None
    options: Optional[dict[str, Any]] = None  # of an attached target, one by one; null takes one away


@router.get("")
@gives(list[ComputeTarget])
def list_targets(workspace: str, request: Request) -> Response:
    """List the workspace's compute targets and the aliases of this server, by name."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    found = call.services.engine.compute.list(check_workspace_name(workspace))
    return json_answer([_readable(call, target) for target in found])


@router.get("/{name}")
@gives(ComputeTarget)
def get_target(workspace: str, name: str, request: Request) -> Response:
    """Return one with its nodes, the runs on it and its queue; `local`, aliases and clusters by name are there too."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    place = check_workspace_name(workspace), check_target_name(name)
    found = call.services.engine.compute.get(*place)
    return json_answer(_readable(call, found))


@router.put("/{name}", status_code=201)
@gives(ComputeTarget, also=200)
@takes(ComputeSpec)
async def create_target(workspace: str, name: str, request: Request) -> Response:
    """Make or attach a target, or return the same one (200); 409 when there is another of that name."""
    return await with_json(request, lambda body: _create(call_of(request), workspace, name, body))


@router.patch("/{name}")
@gives(ComputeTarget)
@takes(ComputeChange)
async def update_target(workspace: str, name: str, request: Request) -> Response:
    """Change a target; who waits for it may start by that."""
    return await with_json(request, lambda body: _update(call_of(request), workspace, name, body))


@router.delete("/{name}")
@gives(DeletedName)
def delete_target(workspace: str, name: str, request: Request) -> Response:
    """Delete or detach a target; twice is fine, 409 while unfinished runs name it."""
    call = call_of(request)
    call.require("change_target")
    call.services.engine.compute.delete(*_checked(workspace, name))
    return json_answer(DeletedName(name))


def _create(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    call.require("change_target")
    spec = parse(ComputeSpec, body)
    made, is_new = call.services.engine.compute.create(*_checked(workspace, name), spec)
    return json_answer(made, status=201 if is_new else 200)


def _update(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    call.require("change_target")
    changes = check_changes(vars(parse(ComputeChange, body)))
    return json_answer(call.services.engine.compute.update(*_checked(workspace, name), changes))


def _readable(call: RequestContext, target: ComputeTarget) -> ComputeTarget:
    """A run's code sees how busy a target is, and no runs but its own."""
    if not isinstance(call.principal, RunPrincipal):
        return target
    own = call.principal.run_id
    nodes = [replace(node, run_id=OTHER if node.run_id not in (None, own) else node.run_id) for node in target.nodes]
    return replace(target, nodes=nodes, running=[run for run in target.running if run.run_id == own], waiting=[])


def _checked(workspace: str, name: str) -> tuple[str, str]:
    return check_workspace_name(workspace), check_plain_name(name)
