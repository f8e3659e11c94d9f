"""Assets of a workspace: environments, datastores and what else it keeps by name, in versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument
from runyard.core.names import check_asset_name, check_workspace_name
from runyard.core.records import Asset
from runyard.data.datastores import BUILT_IN, without_default
from runyard.data.datastores import KIND as DATASTORE
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import gives, takes
from runyard.server.http.requests import parse, with_json

router = APIRouter(prefix="/workspaces/{workspace}/assets/{kind}", tags=["assets"])
KINDS = ("dataset", "datastore", "environment")  # compute targets do more than lie there: routes/compute.py
MAX_KEY = 256


@dataclass(frozen=True)
class AssetBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    document: dict[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True)
class AssetChange:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    document: dict[str, Any] = field(default_factory=dict)


@router.get("")
@gives(list[Asset])
def list_assets(workspace: str, kind: str, request: Request, name: Optional[str] = None) -> Response:
    """List the newest version of each name, or all versions of one."""
    call = call_of(request)
    call.may("read_workspace", workspace=workspace)
    wanted = None if name is None else check_asset_name(name)
    return json_answer(call.services.store.list_assets(*_place(workspace, kind), name=wanted))


@router.get("/{name}")
def get_asset(workspace: str, kind: str, name: str, request: Request, version: Optional[int] = None) -> Response:
    """Return one version, the newest by default."""
    call = call_of(request)
    call.may("read_workspace", workspace=workspace)
    place = (*_place(workspace, kind), check_asset_name(name))
    return json_answer(call.services.store.get_asset(*place, version=version))


@router.post("/{name}", status_code=201)
@takes(AssetBody)
async def put_asset(workspace: str, kind: str, name: str, request: Request) -> Response:
    """Keep the next version; the newest one's key again is that version."""
    return await with_json(request, lambda body: _put(call_of(request), workspace, kind, name, body))


@router.put("/{name}/{version}")
@takes(AssetChange)
async def update_asset(workspace: str, kind: str, name: str, version: int, request: Request) -> Response:
    """Change what a version says."""
    return await with_json(request, lambda body: _update(call_of(request), workspace, kind, name, version, body))


@router.delete("/{name}")
def delete_asset(workspace: str, kind: str, name: str, request: Request) -> Response:
    """Delete all versions of a name; twice is fine."""
    call = call_of(request)
    place = (*_place(workspace, kind), check_asset_name(name))
    store = call.services.store
    call.may_change("change_asset", lambda: [asset.owner for asset in store.list_assets(*place[:2], name=place[2])])
    store.delete_asset(*place)
    return json_answer({"deleted": name})


def _put(call: Call, workspace: str, kind: str, name: str, body: bytes) -> Response:
    call.may("put_asset", workspace=workspace)
    wanted = parse(AssetBody, body)
    if len(wanted.key) > MAX_KEY:
        raise InvalidArgument(f"The key has {len(wanted.key)} characters; {MAX_KEY} are the most.")
    place = (*_place(workspace, kind), check_asset_name(name))
    owner = _datastore_owner(call, *place, wanted) if kind == DATASTORE else call.user
    asset, is_new = call.services.store.put_asset(*place, wanted.document, key=wanted.key, owner=owner)
    return json_answer(asset, status=201 if is_new else 200)


def _update(call: Call, workspace: str, kind: str, name: str, version: int, body: bytes) -> Response:
    place = (*_place(workspace, kind), check_asset_name(name))
    store = call.services.store
    call.may_change("change_asset", lambda: [store.get_asset(*place, version=version).owner])
    document = parse(AssetChange, body).document
    return json_answer(store.update_asset(*place, version=version, document=document))


def _datastore_owner(call: Call, workspace: str, kind: str, name: str, wanted: AssetBody) -> str | None:
    """Return whose the next version is: a datastore stays its first owner's, and the built-in ones are the server's.

    Anybody may make one the default. That it leads elsewhere, for everybody, is for its owner to say.
    """
    known = call.services.store.list_assets(workspace, kind, name=name)
    if not known and name not in BUILT_IN:
        return call.user
    owner = "" if name in BUILT_IN else known[-1].owner
    leads_to = without_default(known[-1].document) if known else {}
    if without_default(wanted.document) != leads_to:
        call.may_change("change_asset", lambda: [owner])
    return owner


def _place(workspace: str, kind: str) -> tuple[str, str]:
    if kind not in KINDS:
        raise InvalidArgument(f"There is no kind of asset {kind[:40]!r}.", hint=f"Known: {', '.join(KINDS)}.")
    return check_workspace_name(workspace), kind
