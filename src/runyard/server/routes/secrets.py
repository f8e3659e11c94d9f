"""Secrets of a workspace: set, read by name, listed without their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter, Request, Response

from runyard.core.names import check_workspace_name
from runyard.server.answers import json_answer
from runyard.server.bodies import parse, with_json
from runyard.server.calls import Call, call_of
from runyard.server.openapi import takes

router = APIRouter(prefix="/workspaces/{workspace}/secrets", tags=["secrets"])


@dataclass(frozen=True)
class SecretBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    value: str


@router.get("")
def list_secrets(workspace: str, request: Request) -> Response:
    """List the names."""
    call = call_of(request)
    call.may("read_secret")
    return json_answer(call.services.vault.list_names(check_workspace_name(workspace)))


@router.get("/{name}")
def get_secret(workspace: str, name: str, request: Request) -> Response:
    """Return one secret's value."""
    call = call_of(request)
    call.may("read_secret")
    answer = json_answer({"value": call.services.vault.get(check_workspace_name(workspace), name)})
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.put("/{name}")
@takes(SecretBody)
async def put_secret(workspace: str, name: str, request: Request) -> Response:
    """Keep a secret; an earlier value is gone for good."""
    return await with_json(request, lambda body: _put(call_of(request), workspace, name, body))


@router.delete("/{name}")
def delete_secret(workspace: str, name: str, request: Request) -> Response:
    """Delete a secret; twice is fine."""
    call = call_of(request)
    call.may("change_secret")
    call.services.vault.delete(check_workspace_name(workspace), name)
    return json_answer({"deleted": name})


def _put(call: Call, workspace: str, name: str, body: bytes) -> Response:
    call.may("change_secret")
    call.services.vault.put(check_workspace_name(workspace), name, parse(SecretBody, body).value)
    return json_answer({"name": name})
