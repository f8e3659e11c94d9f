"""Endpoints of registered models: the names, with their descriptions, tags and aliases."""

from __future__ import annotations

import re
from dataclasses import replace

from runyard.core.errors import Conflict
from runyard.core.records import KIND, MODEL_NAME, Asset, ModelAbout
from runyard.server.mlflow.checks import check_key, check_length
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.errors import RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.registry.records import (
    CHANGE,
    NO_STAGE,
    READ,
    Registered,
    check_model_name,
    edit_about,
    find_registered,
    get_registered,
    get_version,
    latest_versions,
    make_document,
    registered_json,
    tag_of,
    tags_of,
    version_json,
)
from runyard.store.record_limits import check_labels

PLACE = "mlflow/registered-models"
STAGES = {stage.lower(): stage for stage in (NO_STAGE, "Staging", "Production", "Archived")}
LATEST = "latest"
MOST_ALIAS = 255
_ALIAS = re.compile(r"[\w\-]*")
_VERSION_ALIAS = re.compile(r"[vV]\d+")


@endpoint("POST", f"{PLACE}/create", "put_asset", "put_workspace")
def create_registered_model(call: Call) -> Document:
    """Make a name without versions."""
    call.require("put_asset")
    name = check_model_name(call.fields.text("name"))
    about = ModelAbout(call.fields.text("description", ""), tags_of(call.fields.items("tags")))
    check_labels(f"The model `{name}`", about.tags)
    if find_registered(call, name) is not None:
        raise _exists(name)
    made = make_document(call, Registered(name, None, []), about)
    return {"registered_model": registered_json(call, Registered(name, made, []))}


@endpoint("GET", f"{PLACE}/get", *READ)
def get_registered_model(call: Call) -> Document:
    """Return a name with the latest version of each stage."""
    call.require("read_workspace")
    return {"registered_model": registered_json(call, get_registered(call, call.fields.text("name")))}


@endpoint("PATCH", f"{PLACE}/update", *READ, *CHANGE)
def update_registered_model(call: Call) -> Document:
    """Describe a name."""
    description = call.fields.text("description", "")
    changed = edit_about(call, _named(call), lambda about: replace(about, description=description))
    return {"registered_model": registered_json(call, changed)}


@endpoint("POST", f"{PLACE}/rename", *READ, *CHANGE)
def rename_registered_model(call: Call) -> Document:
    """Give a name, with all its versions, another one."""
    new_name = check_model_name(call.fields.text("new_name"), "new_name")
    found = _named(call)
    _require_all(call, found)
    if new_name != found.name:
        make_document(call, found)
        try:
            call.store.rename_assets(call.workspace, [KIND, MODEL_NAME], found.name, new_name)
        except Conflict:
            raise _exists(new_name) from None
    return {"registered_model": registered_json(call, get_registered(call, new_name))}


@endpoint("DELETE", f"{PLACE}/delete", *READ, *CHANGE)
def delete_registered_model(call: Call) -> Document:
    """Delete a name with all its versions."""
    found = _named(call)
    _require_all(call, found)
    for kind in (KIND, MODEL_NAME):
        call.store.delete_asset(call.workspace, kind, found.name)
    call.context.services.collecting.note()
    return {}


@endpoint("GET POST", f"{PLACE}/get-latest-versions", *READ)
def get_latest_versions(call: Call) -> Document:
    """Return the latest version of each stage, or of those asked for."""
    found = _named(call)
    wanted = {stage_of(stage) for stage in call.fields.texts("stages")} or set(STAGES.values())
    latest = [asset for asset in latest_versions(found.versions) if stage_in(asset) in wanted]
    return {"model_versions": [version_json(call, asset, found.about) for asset in latest]} if latest else {}


@endpoint("POST", f"{PLACE}/set-tag", *READ, *CHANGE)
def set_registered_model_tag(call: Call) -> Document:
    """Set a tag of a name."""
    key, value = tag_of(call.fields)
    edit_about(call, _named(call), lambda about: replace(about, tags={**about.tags, key: value}), stamp=False)
    return {}


@endpoint("DELETE", f"{PLACE}/delete-tag", *READ, *CHANGE)
def delete_registered_model_tag(call: Call) -> Document:
    """Remove a tag of a name; one that is not there is no error."""
    key = check_key(call.fields.text("key"), "name", "key")
    edit_about(
        call,
        _named(call),
        lambda about: replace(about, tags={tag: value for tag, value in about.tags.items() if tag != key}),
        stamp=False,
    )
    return {}


@endpoint("POST", f"{PLACE}/alias", *READ, *CHANGE)
def set_alias(call: Call) -> Document:
    """Let an alias name a version."""
    alias = _alias(call)
    if alias.lower() == LATEST:
        raise MlflowError("'latest' alias name (case insensitive) is reserved.")
    if _VERSION_ALIAS.fullmatch(alias):
        raise MlflowError(f"Version alias name '{alias}' is reserved.")
    call.require("read_workspace")
    version = get_version(call, call.fields.text("name"), call.fields.text("version"))
    found = get_registered(call, version.name)
    edit_about(
        call, found, lambda about: replace(about, aliases={**about.aliases, alias: version.version}), stamp=False
    )
    return {}


@endpoint("DELETE", f"{PLACE}/alias", *READ, *CHANGE)
def delete_alias(call: Call) -> Document:
    """Remove an alias; one that is not there is no error."""
    alias = _alias(call)
    edit_about(
        call,
        _named(call),
        lambda about: replace(about, aliases={name: at for name, at in about.aliases.items() if name != alias}),
        stamp=False,
    )
    return {}


@endpoint("GET", f"{PLACE}/alias", *READ)
def get_by_alias(call: Call) -> Document:
    """Return the version that an alias names; `latest` is the one with the highest number."""
    alias, found = _alias(call), _named(call)
    return {"model_version": version_json(call, version_by_alias(found, alias), found.about)}


def version_by_alias(found: Registered, alias: str) -> Asset:
    """Return the version of an alias."""
    if alias.lower() == LATEST:
        if not found.versions:
            raise MlflowError(f"Latest version not found for model {found.name}.", RESOURCE_DOES_NOT_EXIST)
        return found.versions[-1]
    number = found.about.aliases.get(alias)
    for asset in found.versions:
        if asset.version == number:
            return asset
    raise MlflowError(f"Registered model alias {alias} not found.")


def stage_of(text: str) -> str:
    """Return a stage as it is written, whatever its case."""
    if text.lower() not in STAGES:
        raise MlflowError(
            f"Invalid Model Version stage: {text[:100]}. Value must be one of {', '.join(STAGES.values())}."
        )
    return STAGES[text.lower()]


def stage_in(asset: Asset) -> str:
    """Return the stage that a version is in."""
    return str(asset.document.get("stage") or NO_STAGE)


def _named(call: Call) -> Registered:
    call.require("read_workspace")
    return get_registered(call, call.fields.text("name"))


def _require_all(call: Call, found: Registered) -> None:
    """Raise unless the principal may change the name and each of its versions."""
    for owner in {found.owner, *(asset.owner for asset in found.versions)}:
        call.require("change_model", owner=owner)


def _alias(call: Call) -> str:
    alias = call.fields.text("alias", "")
    if not alias:
        raise MlflowError("Registered model alias name cannot be empty.")
    if not _ALIAS.fullmatch(alias):
        raise MlflowError(
            f"Invalid alias name: '{alias[:300]}'. Names may only contain alphanumerics, underscores (_), and dashes "
            "(-)."
        )
    return check_length(alias, "Registered model alias name", MOST_ALIAS)


def _exists(name: str) -> MlflowError:
    return MlflowError(f"Registered Model (name={name}) already exists.", RESOURCE_ALREADY_EXISTS)
