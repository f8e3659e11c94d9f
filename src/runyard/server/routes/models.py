"""Routes of a workspace's models: registered from a run's files or an upload, in versions, downloaded file by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.names import check_asset_name, check_workspace_name, clean_file_name
from runyard.core.records import KIND, MODEL_NAME, Asset, ModelAbout, ModelSpec, ModelVersion
from runyard.server.http.answers import ByteWindow, check_stored, download_answer, json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.model_files import files_of_run, is_below, is_prompt, read_model_file, spec_of
from runyard.server.http.openapi import BYTES, DeletedName, gives, sends, takes
from runyard.server.http.requests import parse, with_json
from runyard.store.record_limits import check_labels

Document = Mapping[str, Any]  # of an asset
router = APIRouter(prefix="/workspaces/{workspace}/models", tags=["models"])


@dataclass(frozen=True)
class NewModel:
    """`spec.files` are uploaded content; or the files of run `spec.run_id` at `run_path`, a file or a folder."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    spec: ModelSpec
    run_path: str = ""


@dataclass(frozen=True)
class ModelChange:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    description: Optional[str] = None
    tags_set: dict[str, str] = field(default_factory=dict)
    tags_remove: list[str] = field(default_factory=list)
    properties_add: dict[str, str] = field(default_factory=dict)


@router.get("")
@gives(list[ModelVersion])
def list_models(workspace: str, request: Request, name: Optional[str] = None) -> Response:
    """List all versions of all models, or of one name."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    store, place = call.services.store, (check_workspace_name(workspace), KIND)
    if name is None:
        found = [asset for asset in store.list_assets(*place, all_versions=True) if not is_prompt(_plain_spec(asset))]
    else:
        found = store.list_assets(*place, name=check_asset_name(name))
    about = _abouts(call, workspace, name)
    return json_answer([_shown(call, asset, about.get(asset.name)) for asset in found])


@router.get("/{name:asset}")
@gives(ModelVersion)
def get_model(workspace: str, name: str, request: Request, version: Optional[int] = None) -> Response:
    """Return one version, the newest by default."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    found = _get(call, workspace, name, version)
    return json_answer(_shown(call, found, _abouts(call, workspace, found.name).get(found.name)))


@router.post("/{name:asset}", status_code=201)
@gives(ModelVersion)
@takes(NewModel)
async def register_model(workspace: str, name: str, request: Request) -> Response:
    """Keep the next version of a model."""
    return await with_json(request, lambda body: _register(call_of(request), workspace, name, body))


@router.patch("/{name:asset}/{version}")
@gives(ModelVersion)
@takes(ModelChange)
async def change_model(workspace: str, name: str, version: int, request: Request) -> Response:
    """Change what is said about a version; its files stay."""
    return await with_json(request, lambda body: _change(call_of(request), workspace, name, version, body))


@router.delete("/{name:asset}/{version}")
@gives(DeletedName)
def delete_model(workspace: str, name: str, version: int, request: Request) -> Response:
    """Delete one version; twice is fine."""
    call = call_of(request)
    place = check_workspace_name(workspace), KIND, check_asset_name(name)
    store = call.services.store
    call.require_change(
        "change_model",
        lambda: [one.owner for one in store.list_assets(*place[:2], name=place[2]) if one.version == version],
        workspace=workspace,
    )
    store.delete_asset(*place, version=version)
    call.services.collecting.note()
    return json_answer(DeletedName(f"{name}:{version}"))


@router.get("/{name:asset}/{version}/files/{path:path}")
@sends(BYTES)
def get_model_file(workspace: str, name: str, version: int, path: str, request: Request) -> Response:
    """Download one of a version's files."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    wanted = clean_file_name(path)
    spec = spec_of(call.services, _get(call, workspace, name, version))
    file = next((one for one in spec.files if one.name == wanted), None)
    if file is None:
        raise NotFound(f"Model `{name}:{version}` has no file {path[:200]!r}.")
    whole = ByteWindow(0, file.size, is_range=False)
    return download_answer(file.name, file.size, lambda _: read_model_file(call.services, file), window=whole)


def _register(call: RequestContext, workspace: str, name: str, body: bytes) -> Response:
    call.require("put_asset", workspace=workspace)
    wanted = parse(NewModel, body)
    place = check_workspace_name(workspace), KIND, check_asset_name(name)
    spec = _from_run(call, wanted) if wanted.run_path else _uploaded(call, wanted.spec)
    asset, _ = call.services.store.put_asset(*place, to_plain(spec), owner=call.user)
    return json_answer(_shown(call, asset, _abouts(call, workspace, asset.name).get(asset.name)), status=201)


def _from_run(call: RequestContext, wanted: NewModel) -> ModelSpec:
    """Name the run's own content once more: nothing is copied."""
    run = call.readable_run(wanted.spec.run_id or "")
    path = clean_file_name(wanted.run_path)
    found = files_of_run(call.services, run, path)
    if not found.files:
        raise NotFound(f"Run `{run.id}` has no file or folder {wanted.run_path[:200]!r}.")
    return replace(
        wanted.spec,
        path=found.path,
        is_folder=found.is_folder,
        files=found.files,
        run_path=path,
        experiment=run.experiment,
    )


def _uploaded(call: RequestContext, spec: ModelSpec) -> ModelSpec:
    base = clean_file_name(spec.path)
    files = [check_stored(call.services, file) for file in spec.files]
    if "/" in base or not files or any(not is_below(file.name, base) for file in files):
        raise InvalidArgument("A model's files must all lie below its path, and there must be at least one.")
    return replace(spec, files=files)


def _change(call: RequestContext, workspace: str, name: str, version: int, body: bytes) -> Response:
    call.require_change("change_model", lambda: [_get(call, workspace, name, version).owner], workspace=workspace)
    wanted, found = parse(ModelChange, body), _get(call, workspace, name, version)

    def edit(asset: Asset) -> Document:
        old = _plain_spec(asset)
        tags = {key: value for key, value in old.tags.items() if key not in wanted.tags_remove}
        taken = sorted(set(wanted.properties_add) & set(old.properties))
        if taken:
            raise InvalidArgument(f"Properties of a model cannot be changed: {', '.join(taken)}.", hint="Use a tag.")
        new = replace(
            old,
            tags={**tags, **wanted.tags_set},
            properties={**old.properties, **wanted.properties_add},
            description=old.description if wanted.description is None else wanted.description,
        )
        check_labels(f"The model `{name}:{version}`", new.tags, new.properties)
        document: Document = to_plain(new)
        return document

    changed = call.services.store.edit_asset(workspace, KIND, found.name, edit, version=version)
    return json_answer(_shown(call, changed, _abouts(call, workspace, found.name).get(found.name)))


def _get(call: RequestContext, workspace: str, name: str, version: int | None) -> Asset:
    place = check_workspace_name(workspace), KIND, check_asset_name(name)
    try:
        return call.services.store.get_asset(*place, version=version)
    except NotFound:
        asked = f"{name}:{version}" if version is not None else name
        known = call.services.store.list_assets(*place[:2])
        raise NotFound(
            f"ModelNotFound: there is no model `{asked}` in workspace `{workspace}`.",
            why=f"Known here: {', '.join(f'{one.name}:{one.version}' for one in known[:20]) or 'none yet'}.",
            hint="Model.list(ws) lists them all.",
        ) from None


def _shown(call: RequestContext, asset: Asset, about: ModelAbout | None) -> ModelVersion:
    spec = spec_of(call.services, asset)
    files = [replace(file, chunks=[]) for file in spec.files]
    aliases = [] if about is None else sorted(name for name, at in about.aliases.items() if at == asset.version)
    return ModelVersion(
        asset.workspace,
        asset.name,
        asset.version,
        asset.created_at,
        asset.updated_at,
        replace(spec, files=files),
        aliases=aliases,
        about=about or ModelAbout(),
    )


def _abouts(call: RequestContext, workspace: str, name: str | None) -> dict[str, ModelAbout]:
    found = call.services.store.list_assets(workspace, MODEL_NAME, name=name)
    return {asset.name: from_plain(ModelAbout, asset.document) for asset in found}


def _plain_spec(asset: Asset) -> ModelSpec:
    return from_plain(ModelSpec, asset.document)
