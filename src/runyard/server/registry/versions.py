"""Endpoints of model versions, which are the versions of our models."""

from __future__ import annotations

import json
from dataclasses import replace

from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.records import KIND, MODEL_NAME, Asset, ModelAbout, ModelSpec
from runyard.server.http.model_files import PROMPT_TAG
from runyard.server.mlflow.checks import check_key
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.errors import MlflowError
from runyard.server.registry.logged_records import LoggedDocument, find_logged, note_logged
from runyard.server.registry.names import STAGES, stage_in, stage_of
from runyard.server.registry.records import (
    CHANGE,
    NO_STAGE,
    READ,
    download_uri,
    edit_version,
    find_registered,
    get_registered,
    get_version,
    require_version,
    tag_of,
    tags_of,
    version_json,
)
from runyard.server.registry.sources import spec_from
from runyard.store.record_limits import check_labels

PLACE = "mlflow/model-versions"
ACTIVE_STAGES = ("Staging", "Production")
VERSIONS_TAG = "mlflow.modelVersions"  # of a logged model: where it is registered


@endpoint(
    "POST", f"{PLACE}/create", "put_asset", "read_workspace", "read_run", "change_model", "add_file", "put_workspace"
)
def create_model_version(call: Call) -> Document:
    """Keep the next version of a name: the content of its source, once more."""
    call.require("put_asset")
    call.require("read_workspace")
    fields = call.fields
    name, source = fields.text("name"), fields.text("source")
    run_id, model_id = fields.text("run_id", ""), fields.text("model_id", "")
    tags = tags_of(fields.items("tags"))
    if tags.get(PROMPT_TAG, "").lower() == "true":
        spec = ModelSpec(source=source, run_id=run_id or None, location=source)
    else:
        spec = spec_from(call, source, run_id, model_id)
    found = get_registered(call, name)
    check_labels(f"The model `{name}`", tags)
    made = replace(
        spec,
        tags=tags,
        description=fields.text("description", ""),
        run_link=fields.text("run_link", ""),
        created_by=call.context.user,
    )
    asset, _ = call.store.put_asset(call.workspace, KIND, found.name, to_plain(made), owner=call.context.user)
    if made.logged_model:
        _note_version(call, made.logged_model, asset)
    return _shown(call, asset, found.about)


@endpoint("GET", f"{PLACE}/get", *READ)
def get_model_version(call: Call) -> Document:
    """Return a version."""
    return _shown(call, _version(call))


@endpoint("GET", f"{PLACE}/get-download-uri", *READ)
def get_download_uri(call: Call) -> Document:
    """Return where a version's files are."""
    return {"artifact_uri": download_uri(call, _version(call))}


@endpoint("PATCH", f"{PLACE}/update", *READ, *CHANGE)
def update_model_version(call: Call) -> Document:
    """Describe a version."""
    description = call.fields.text("description", "")
    return _shown(call, edit_version(call, _version(call), lambda spec: replace(spec, description=description)))


@endpoint("POST", f"{PLACE}/transition-stage", *READ, *CHANGE)
def transition_stage(call: Call) -> Document:
    """Put a version into a stage; the others that are in it may be archived."""
    text = call.fields.text("stage")
    stage, archives = stage_of(text), call.fields.value("archive_existing_versions") in (True, "true", "True")
    if archives and stage not in ACTIVE_STAGES:
        raise MlflowError(
            "Model version transition cannot archive existing model versions because "
            f"'{text}' is not an Active stage. Valid stages are {list(ACTIVE_STAGES)}"
        )
    asset = _version(call)
    found = get_registered(call, asset.name)
    others = [one for one in found.versions if stage_in(one) == stage and one.version != asset.version]
    for other in others if archives else ():
        require_version(call, other)
    for other in others if archives else ():
        edit_version(call, other, lambda spec: replace(spec, stage=STAGES["archived"]))
    changed = edit_version(call, asset, lambda spec: replace(spec, stage="" if stage == NO_STAGE else stage))
    if found.document is not None:
        call.store.edit_asset(call.workspace, MODEL_NAME, found.name, lambda old: old.document)
    return _shown(call, changed, found.about)


@endpoint("DELETE", f"{PLACE}/delete", *READ, *CHANGE)
def delete_model_version(call: Call) -> Document:
    """Delete a version; its aliases go with it."""
    asset = _version(call)
    require_version(call, asset)
    call.store.delete_asset(call.workspace, KIND, asset.name, version=asset.version)
    found = find_registered(call, asset.name)
    if found is None:  # MLflow keeps a name without versions
        document = to_plain(ModelAbout())
        call.store.put_asset(call.workspace, MODEL_NAME, asset.name, document, key="name", owner=asset.owner)
    elif found.document is not None:
        call.store.edit_asset(call.workspace, MODEL_NAME, found.name, lambda old: _without(old, asset.version))
    call.context.services.collecting.note()
    return {}


@endpoint("POST", f"{PLACE}/set-tag", *READ, *CHANGE)
def set_model_version_tag(call: Call) -> Document:
    """Set a tag of a version."""
    key, value = tag_of(call.fields)
    edit_version(call, _version(call), lambda spec: replace(spec, tags={**spec.tags, key: value}), stamp=False)
    return {}


@endpoint("DELETE", f"{PLACE}/delete-tag", *READ, *CHANGE)
def delete_model_version_tag(call: Call) -> Document:
    """Remove a tag of a version; one that is not there is no error."""
    key = check_key(call.fields.text("key"), "name", "key")
    edit_version(
        call,
        _version(call),
        lambda spec: replace(spec, tags={tag: value for tag, value in spec.tags.items() if tag != key}),
        stamp=False,
    )
    return {}


def _version(call: Call) -> Asset:
    call.require("read_workspace")
    return get_version(call, call.fields.text("name"), call.fields.text("version"))


def _shown(call: Call, asset: Asset, about: ModelAbout | None = None) -> Document:
    return {"model_version": version_json(call, asset, about or get_registered(call, asset.name).about)}


def _without(document: Asset, version: int) -> Document:
    about = from_plain(ModelAbout, document.document)
    kept = {alias: at for alias, at in about.aliases.items() if at != version}
    plain: Document = to_plain(replace(about, aliases=kept))
    return plain


def _note_version(call: Call, model_id: str, asset: Asset) -> None:
    """Tag a logged model with the version that it is now."""
    model = find_logged(call, model_id)
    if model is None:
        return
    note = {"name": asset.name, "version": asset.version}

    def edit(document: LoggedDocument) -> LoggedDocument:
        try:
            known = json.loads(document.tags.get(VERSIONS_TAG, "[]"))
        except ValueError:
            known = []
        notes = [*(known if isinstance(known, list) else []), note]
        return replace(document, tags={**document.tags, VERSIONS_TAG: json.dumps(notes)})

    note_logged(call, model, edit, stamp=False)
