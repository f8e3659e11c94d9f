"""Routes of a workspace's assets, built environments, datastore files and secrets.

Assets are kept by name, in versions. The built environments are those on this machine, where runs on `local` use them.
The files are those of the built-in datastores, for clients and nodes that are not on the server's machine. A registered
folder is not served: with it, a user who may register could read everything that the server's account can. Secrets are
listed without their values.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from runyard.core.config.paths import datastores_folder, environments_folder
from runyard.core.errors import InvalidArgument, NotAllowed, NotFound, TooLarge
from runyard.core.names import check_asset_name, check_plain_name, check_workspace_name
from runyard.core.records import Asset, RunFile
from runyard.core.users import check_user_name
from runyard.data.datastores import BUILT_IN, folder_document, without_default
from runyard.data.datastores import KIND as DATASTORE
from runyard.data.folder import FolderStorage, below, clean_data_path
from runyard.environments.pruning import BuiltFolder, list_built, prune, remove
from runyard.server.access.permissions import RunPrincipal, UserPrincipal
from runyard.server.access.vault import EVERYONE
from runyard.server.http.answers import check_stored, download_headers, json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import BYTES, DeletedName, gives, sends, takes
from runyard.server.http.requests import parse, with_json
from runyard.server.storage.room import Taken

router = APIRouter(tags=["assets"])
KINDS = ("dataset", "datastore", "environment", "image")  # compute targets do more than lie there: routes/compute.py
MAX_KEY = 256
PIECE = 1 << 20
MOST_REPEATS = 256  # 1 GiB of full chunks; a file may repeat as many more as it has different ones
ZEROS = "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8"  # a full chunk of zeros: takes no disk


@dataclass(frozen=True)
class AssetBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    document: dict[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True)
class AssetChange:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    document: dict[str, Any] = field(default_factory=dict)


@router.get("/workspaces/{workspace}/assets/{kind}")
@gives(list[Asset])
def list_assets(workspace: str, kind: str, request: Request, name: Optional[str] = None) -> Response:
    """List the newest version of each name, or all versions of one."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    if name is None:
        return json_answer(call.services.store.list_assets(*_kind_place(workspace, kind)))
    *place, wanted = _place(workspace, kind, name)
    return json_answer(call.services.store.list_assets(*place, name=wanted))


@router.get("/workspaces/{workspace}/assets/{kind}/{name:asset}")
@gives(Asset)
def get_asset(workspace: str, kind: str, name: str, request: Request, version: Optional[int] = None) -> Response:
    """Return one version, the newest by default."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    place = _place(workspace, kind, name)
    return json_answer(call.services.store.get_asset(*place, version=version))


@router.post("/workspaces/{workspace}/assets/{kind}/{name:asset}", status_code=201)
@gives(Asset, also=200)
@takes(AssetBody)
async def put_asset(workspace: str, kind: str, name: str, request: Request) -> Response:
    """Keep the next version; the newest one's key again is that version."""
    return await with_json(request, lambda body: _put_asset(call_of(request), workspace, kind, name, body))


@router.put("/workspaces/{workspace}/assets/{kind}/{name:asset}/{version}")
@gives(Asset)
@takes(AssetChange)
async def update_asset(workspace: str, kind: str, name: str, version: int, request: Request) -> Response:
    """Change what a version says."""
    return await with_json(request, lambda body: _update(call_of(request), workspace, kind, name, version, body))


@router.delete("/workspaces/{workspace}/assets/{kind}/{name:asset}")
@gives(DeletedName)
def delete_asset(workspace: str, kind: str, name: str, request: Request) -> Response:
    """Delete all versions of a name; twice is fine."""
    call = call_of(request)
    place = _place(workspace, kind, name)
    store = call.services.store
    call.require_change("change_asset", lambda: [asset.owner for asset in store.list_assets(*place[:2], name=place[2])])
    store.delete_asset(*place)
    return json_answer(DeletedName(name))


def _put_asset(call: RequestContext, workspace: str, kind: str, name: str, body: bytes) -> Response:
    call.require("put_asset", workspace=workspace)
    wanted = parse(AssetBody, body)
    if len(wanted.key) > MAX_KEY:
        raise InvalidArgument(f"The key has {len(wanted.key)} characters; {MAX_KEY} are the most.")
    place = _place(workspace, kind, name)
    owner = _datastore_owner(call, *place, wanted) if kind == DATASTORE else call.user
    asset, is_new = call.services.store.put_asset(*place, wanted.document, key=wanted.key, owner=owner)
    return json_answer(asset, status=201 if is_new else 200)


def _update(call: RequestContext, workspace: str, kind: str, name: str, version: int, body: bytes) -> Response:
    place = _place(workspace, kind, name)
    store = call.services.store
    call.require_change("change_asset", lambda: [store.get_asset(*place, version=version).owner])
    document = parse(AssetChange, body).document
    return json_answer(store.update_asset(*place, version=version, document=document))


def _datastore_owner(call: RequestContext, workspace: str, kind: str, name: str, wanted: AssetBody) -> str | None:
    """Return whose the next version is: a datastore stays its first owner's, and the built-in ones are the server's.

    Every user may make a datastore the default. Only its owner may change where it leads, which concerns all users.
    """
    known = call.services.store.list_assets(workspace, kind, name=name)
    if not known and name not in BUILT_IN:
        return call.user
    owner = "" if name in BUILT_IN else known[-1].owner
    leads_to = without_default(known[-1].document) if known else {}
    if without_default(wanted.document) != leads_to:
        call.require_change("change_asset", lambda: [owner])
    return owner


def _place(workspace: str, kind: str, name: str) -> tuple[str, str, str]:
    return *_kind_place(workspace, kind), check_plain_name(name) if kind == DATASTORE else check_asset_name(name)


def _kind_place(workspace: str, kind: str) -> tuple[str, str]:
    if kind not in KINDS:
        raise InvalidArgument(f"There is no kind of asset {kind[:40]!r}.", hint=f"Known: {', '.join(KINDS)}.")
    return check_workspace_name(workspace), kind


@dataclass(frozen=True)
class PruneBody:
    """What may stay: `keep_bytes` in all, and what was used within `unused_s` seconds. `dry_run`: only say."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    keep_bytes: Optional[int] = None
    unused_s: Optional[float] = None
    dry_run: bool = False


@router.get("/environments")
@gives(list[BuiltFolder])
def list_environments(request: Request) -> Response:
    """List the environments that are built here, last used first."""
    call = call_of(request)
    call.require("list_environments")
    return json_answer(list_built(environments_folder(call.services.settings.home)))


@router.post("/environments/prune")
@gives(list[BuiltFolder])
@takes(PruneBody)
async def prune_environments(request: Request) -> Response:
    """Remove those that nobody uses, as far as the body says; answer those that went."""
    return await with_json(request, lambda body: _prune(call_of(request), body))


@router.delete("/environments/{key}")
@gives(BuiltFolder)
def remove_environment(key: str, request: Request) -> Response:
    """Remove one by its key, or by the key's beginning; 409 while a run uses it."""
    call = call_of(request)
    call.require("manage_environments")
    return json_answer(remove(environments_folder(call.services.settings.home), key))


def _prune(call: RequestContext, body: bytes) -> Response:
    call.require("manage_environments")
    wanted = parse(PruneBody, body)
    if (wanted.keep_bytes or 0) < 0 or (wanted.unused_s or 0) < 0:
        raise InvalidArgument("keep_bytes and unused_s are zero or more.")
    root = environments_folder(call.services.settings.home)
    return json_answer(prune(root, keep_bytes=wanted.keep_bytes, unused_s=wanted.unused_s, dry_run=wanted.dry_run))


@dataclass(frozen=True)
class DataFileAnswer:
    name: str
    size: int


@dataclass(frozen=True)
class DataFileBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    file: RunFile


@router.get("/workspaces/{workspace}/datastores/{name}/files")
@gives(list[DataFileAnswer])
def list_data_files(workspace: str, name: str, request: Request, path: str = "") -> Response:
    """List the files below a path, or the one file that is there."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    document = _document(call, workspace, name)
    found = FolderStorage(document).iter_files(clean_data_path(path))
    stays = _Inside(str(document["path"]))
    return json_answer([DataFileAnswer(file.name, file.size) for file in found if stays(file.name)])


@router.post("/workspaces/{workspace}/datastores/{name}/files", status_code=201)
@gives(DataFileAnswer)
@takes(DataFileBody)
async def put_data_file(workspace: str, name: str, request: Request) -> Response:
    """Store uploaded content as a file of the datastore, in place of what was there."""
    return await with_json(request, lambda body: _put_file(call_of(request), workspace, name, body))


@router.get("/workspaces/{workspace}/datastores/{name}/files/{path:path}")
@sends(BYTES)
def get_data_file(workspace: str, name: str, path: str, request: Request) -> Response:
    """Download one file."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    root, wanted = str(_document(call, workspace, name)["path"]), clean_data_path(path)
    descriptor = _open(root, wanted)
    size = os.fstat(descriptor).st_size
    headers = {**download_headers(wanted, size, complete=True), "Content-Length": str(size)}
    return StreamingResponse(_read(descriptor), headers=headers, media_type="application/octet-stream")


def _put_file(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    call.require("put_data", workspace=workspace)
    file = check_stored(call.services, parse(DataFileBody, body).file)
    _check_repeats(file)
    document = _document(call, workspace, name)
    pieces = call.services.content.read_file(file.chunks, offset=0, limit=file.size)
    storage, path = FolderStorage(document), clean_data_path(file.name)
    old = storage.find_file(path)
    with call.services.room.take(file.size, f"The file {file.name[:200]!r}") as taken:
        user, growth = _user_of(call), file.size - (0 if old is None else old.size)
        call.services.quotas.add_data(user, growth)
        try:
            storage.put_pieces(_counted(pieces, taken), path)
        except BaseException:
            call.services.quotas.add_data(user, -growth)
            raise
    return json_answer(DataFileAnswer(file.name, file.size), status=201)


def _check_repeats(file: RunFile) -> None:
    """Refuse a small request that asks for a huge file: the name of a chunk is short, and each mention is written out.

    Raises:
        TooLarge: most of the file is copies of the same few chunks.
    """
    counts = Counter(file.chunks)
    counts.pop(ZEROS, None)
    repeats, most = counts.total() - len(counts), MOST_REPEATS + len(counts)
    if repeats > most:
        raise TooLarge(
            f"The file {file.name[:200]!r} repeats chunks of its own content {repeats:,} times.",
            why=f"It has {len(counts):,} different ones, so {most:,} repeats are allowed: each one is written out.",
            hint="Upload it compressed, or keep it on a datastore of your own: Datastore.register_folder().",
        )


def _document(call: RequestContext, workspace: str, name: str) -> dict[str, object]:
    check_plain_name(name)
    call.services.store.get_workspace(check_workspace_name(workspace))
    if name not in BUILT_IN:
        raise NotAllowed(
            f"The datastore `{name}` is not given out by the server.",
            why="It is a folder that somebody registered: it is there for machines that see that folder.",
            hint=f"Mount its file system here, or copy the data to `{BUILT_IN[0]}`.",
        )
    folder = datastores_folder(call.services.settings.home, workspace) / name
    return {**folder_document(str(folder)), "make": True}


def _user_of(call: RequestContext) -> str:
    """Return the user whose quota a write counts for: of a run, its submitter; the server's owner has no quota."""
    if isinstance(call.principal, UserPrincipal):
        return call.principal.name
    if isinstance(call.principal, RunPrincipal):
        return call.services.store.get_run(call.principal.run_id).submitted_by
    return ""


def _counted(pieces: Iterable[bytes], taken: Taken) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        taken.wrote(len(piece))


class _Inside:
    """Whether a path, all links followed, is below the folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._real = os.path.realpath(root) + os.sep

    def __call__(self, path: str) -> bool:
        return os.path.realpath(below(self._root, path)).startswith(self._real)


def _open(root: str, path: str) -> int:
    """Open a file below `root`; a link that leads out of it is not followed."""
    place = os.path.realpath(below(root, path))
    if not path or not _Inside(root)(path) or not os.path.isfile(place):
        raise NotFound(f"The datastore holds no file `{path[:200]}`.")
    return os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def _read(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(descriptor, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


@dataclass(frozen=True)
class SecretBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    value: Optional[str] = None  # stays when there is one
    readers: Optional[list[str]] = None  # users; "*": all of the team. Without it a new secret is its maker's


@dataclass(frozen=True)
class SecretName:
    name: str


@dataclass(frozen=True)
class SecretValue:
    value: str


@router.get("/workspaces/{workspace}/secrets")
@gives(list[str])
def list_secrets(workspace: str, request: Request) -> Response:
    """List the names."""
    call = call_of(request)
    call.require("read_secret", workspace=workspace)
    return json_answer(call.services.vault.list_names(check_workspace_name(workspace)))


@router.get("/workspaces/{workspace}/secrets/{name}")
@gives(SecretValue)
def get_secret(workspace: str, name: str, request: Request) -> Response:
    """Return one secret's value."""
    call = call_of(request)
    call.require("read_secret", workspace=workspace)
    _check_reader(call, check_workspace_name(workspace), name)
    answer = json_answer(SecretValue(call.services.vault.get(workspace, name)))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.put("/workspaces/{workspace}/secrets/{name}")
@gives(SecretName)
@takes(SecretBody)
async def put_secret(workspace: str, name: str, request: Request) -> Response:
    """Keep a secret; an earlier value is gone for good."""
    return await with_json(request, lambda body: _put_secret(call_of(request), workspace, name, body))


@router.delete("/workspaces/{workspace}/secrets/{name}")
@gives(DeletedName)
def delete_secret(workspace: str, name: str, request: Request) -> Response:
    """Delete a secret; twice is fine."""
    call = call_of(request)
    call.require_change("change_secret", lambda: _owners(call, check_workspace_name(workspace), name))
    call.services.vault.delete(workspace, name)
    return json_answer(DeletedName(name))


def _put_secret(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    call.require_change("change_secret", lambda: _owners(call, check_workspace_name(workspace), name))
    wanted = parse(SecretBody, body)
    if wanted.value is None and wanted.readers is None:
        raise InvalidArgument("The request says nothing about the secret.", hint="Send `value`, `readers`, or both.")
    for reader in wanted.readers or ():
        if reader != EVERYONE:
            check_user_name(reader)
    call.services.vault.put(workspace, name, wanted.value, readers=wanted.readers, owner=call.user)
    return json_answer(SecretName(name))


def _owners(call: RequestContext, workspace: str, name: str) -> list[str | None]:
    found = call.services.vault.find_access(workspace, name)
    return [] if found is None else [found.owner]


def _check_reader(call: RequestContext, workspace: str, name: str) -> None:
    found = call.services.vault.find_access(workspace, name)
    if found is None or call.is_admins or found.is_readable_by(call.user):
        return
    raise NotAllowed(
        f"You may not read the secret `{name}`.",
        why=f"It belongs to {f'user `{found.owner}`' if found.owner else 'the owner of the server'}; "
        f"its readers do not include `{call.user}`.",
        hint=f"Its owner or an admin adds you with `runyard secrets share {name} {call.user}`.",
    )
