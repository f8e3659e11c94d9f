"""Secrets of a workspace: set, read by name, listed without their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument, NotAllowed
from runyard.core.names import check_workspace_name
from runyard.core.users import check_user_name
from runyard.server.access.vault import EVERYONE
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, with_json

router = APIRouter(prefix="/workspaces/{workspace}/secrets", tags=["secrets"])


@dataclass(frozen=True)
class SecretBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    value: Optional[str] = None  # stays when there is one
    readers: Optional[list[str]] = None  # users; "*": all of the team. Without it a new secret is its maker's


@router.get("")
def list_secrets(workspace: str, request: Request) -> Response:
    """List the names."""
    call = call_of(request)
    call.may("read_secret", workspace=workspace)
    return json_answer(call.services.vault.list_names(check_workspace_name(workspace)))


@router.get("/{name}")
def get_secret(workspace: str, name: str, request: Request) -> Response:
    """Return one secret's value."""
    call = call_of(request)
    call.may("read_secret", workspace=workspace)
    _check_reader(call, check_workspace_name(workspace), name)
    answer = json_answer({"value": call.services.vault.get(workspace, name)})
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
    call.may_change("change_secret", lambda: _owners(call, check_workspace_name(workspace), name))
    call.services.vault.delete(workspace, name)
    return json_answer({"deleted": name})


def _put(call: Call, workspace: str, name: str, body: bytes) -> Response:
    call.may_change("change_secret", lambda: _owners(call, check_workspace_name(workspace), name))
    wanted = parse(SecretBody, body)
    if wanted.value is None and wanted.readers is None:
        raise InvalidArgument("The request says nothing about the secret.", hint="Send `value`, `readers`, or both.")
    for reader in wanted.readers or ():
        if reader != EVERYONE:
            check_user_name(reader)
    call.services.vault.put(workspace, name, wanted.value, readers=wanted.readers, owner=call.user)
    return json_answer({"name": name})


def _owners(call: Call, workspace: str, name: str) -> list[str | None]:
    found = call.services.vault.find_access(workspace, name)
    return [] if found is None else [found.owner]


def _check_reader(call: Call, workspace: str, name: str) -> None:
    found = call.services.vault.find_access(workspace, name)
    if found is None or call.is_admins or found.is_readable_by(call.user):
        return
    raise NotAllowed(
        f"You may not read the secret `{name}`.",
        why=f"It belongs to {f'user `{found.owner}`' if found.owner else 'the owner of the server'}; "
        f"its readers do not include `{call.user}`.",
        hint=f"Its owner or an admin adds you with `runyard secrets share {name} {call.user}`.",
    )
