"""Registered models as MLflow sees them: a name that has a description, tags and aliases, and versions, which are ours.

A name exists when it has a document (kind MODEL_NAME) or a version. An alias of a deleted version is no alias: version
numbers are not given again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.names import check_asset_name
from runyard.core.records import KIND, MODEL_NAME, Asset, ModelAbout, ModelSpec
from runyard.server.http.model_files import is_prompt, spec_of
from runyard.server.mlflow.checks import check_key, check_length, check_path
from runyard.server.mlflow.endpoints import Call, Document
from runyard.server.mlflow.entities import milliseconds, tags_json
from runyard.server.mlflow.errors import RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.mlflow.requests import Fields, missing
from runyard.store.record_limits import check_labels

MOST_TAG = 100_000  # characters of a value
NO_STAGE = "None"
READ = ("read_workspace", "put_workspace")
CHANGE = ("change_model", "put_asset", "put_workspace")
_PLAIN = re.compile(r"[\w.\- ]+", re.ASCII)
REGISTERED = "mlflow-artifacts:/registered"


@dataclass(frozen=True)
class Registered:
    """A name with its versions, oldest first. `document`: None where nothing was said of the name yet."""

    name: str
    document: Asset | None
    versions: list[Asset]

    @property
    def about(self) -> ModelAbout:
        """The name's description, tags and aliases."""
        return ModelAbout() if self.document is None else from_plain(ModelAbout, self.document.document)

    @property
    def owner(self) -> str | None:
        """The user who may change what is said of the name."""
        return (self.document or self.versions[0]).owner

    @property
    def created_ms(self) -> int:
        """When the name came to be, in ms."""
        return min(milliseconds(asset.created_at) for asset in self._assets())

    @property
    def updated_ms(self) -> int:
        """When what is said of the name changed, or a version came; in ms."""
        if self.document is None:
            return max(milliseconds(asset.updated_at) for asset in self.versions)
        came = [milliseconds(asset.created_at) for asset in self.versions]
        return max([milliseconds(self.document.updated_at), *came])

    def _assets(self) -> list[Asset]:
        return [*self.versions, *([] if self.document is None else [self.document])]


def get_registered(call: Call, name: str) -> Registered:
    """Return the registered model of a name.

    Raises:
        MlflowError: there is none, or it cannot be a name.
    """
    found = find_registered(call, name)
    if found is None:
        check_model_name(name)
        raise MlflowError(f"Registered Model with name={name[:300]} not found", RESOURCE_DOES_NOT_EXIST)
    return found


def find_registered(call: Call, name: str) -> Registered | None:
    """Return the registered model of a name, None where there is none."""
    try:
        known = check_asset_name(name)
    except InvalidArgument:
        return None
    documents = call.store.list_assets(call.workspace, MODEL_NAME, name=known)
    versions = call.store.list_assets(call.workspace, KIND, name=known)
    return Registered(known, documents[-1] if documents else None, versions) if documents or versions else None


def list_registered(call: Call) -> list[Registered]:
    """Return all registered models of the workspace, by name."""
    documents = {asset.name: asset for asset in call.store.list_assets(call.workspace, MODEL_NAME)}
    versions: dict[str, list[Asset]] = {}
    for asset in call.store.list_assets(call.workspace, KIND, all_versions=True):
        versions.setdefault(asset.name, []).append(asset)
    return [Registered(name, documents.get(name), versions.get(name, [])) for name in sorted({*documents, *versions})]


def get_version(call: Call, name: str, version: str) -> Asset:
    """Return a version by its number, which comes as text.

    Raises:
        MlflowError: there is none, or it is not a number.
    """
    number = version_number(version)
    try:
        return call.store.get_asset(call.workspace, KIND, check_asset_name(name), version=number)
    except (NotFound, InvalidArgument):
        check_model_name(name)
        raise MlflowError(
            f"Model Version (name={name[:300]}, version={number}) not found", RESOURCE_DOES_NOT_EXIST
        ) from None


def version_number(text: str) -> int:
    """Return the number of a version."""
    try:
        number = int(text)
    except ValueError:
        raise MlflowError(f"Parameter 'version' must be an integer, got '{text[:100]}'.") from None
    return number if abs(number) < 1 << 31 else 0


def make_document(call: Call, found: Registered, about: ModelAbout | None = None) -> Asset:
    """Return the document of a name, made where there is none."""
    if found.document is not None:
        return found.document
    owner = found.versions[0].owner if found.versions else call.context.user
    return call.store.put_asset(
        call.workspace, MODEL_NAME, found.name, to_plain(about or ModelAbout()), key="name", owner=owner
    )[0]


def edit_about(
    call: Call, found: Registered, edit: Callable[[ModelAbout], ModelAbout], *, stamp: bool = True
) -> Registered:
    """Change what is said of a name, for its owner. Without `stamp`, the time of its last change stays."""
    call.require("change_model", owner=found.owner)
    make_document(call, found)

    def changed(asset: Asset) -> Document:
        about = edit(from_plain(ModelAbout, asset.document))
        check_labels(f"The model `{found.name}`", {**about.tags, **dict.fromkeys(about.aliases, "")})
        document: Document = to_plain(about)
        return document

    document = call.store.edit_asset(call.workspace, MODEL_NAME, found.name, changed, stamp=stamp)
    return Registered(found.name, document, found.versions)


def edit_version(call: Call, asset: Asset, edit: Callable[[ModelSpec], ModelSpec], *, stamp: bool = True) -> Asset:
    """Change what is said of a version, for its owner or the owner of the name."""
    require_version(call, asset)

    def changed(old: Asset) -> Document:
        spec = edit(from_plain(ModelSpec, old.document))
        check_labels(f"The model `{asset.name}:{asset.version}`", spec.tags, spec.properties)
        document: Document = to_plain(spec)
        return document

    return call.store.edit_asset(call.workspace, KIND, asset.name, changed, version=asset.version, stamp=stamp)


def require_version(call: Call, asset: Asset) -> None:
    """Raise unless the principal may change a version."""
    call.require("change_model", owner=asset.owner)


def registered_json(call: Call, found: Registered) -> Document:
    """Return a registered model as MLflow's JSON, with the latest version of each stage."""
    about = found.about
    numbers = {asset.version for asset in found.versions}
    aliases = [
        {"alias": alias, "version": str(version)} for alias, version in about.aliases.items() if version in numbers
    ]
    latest = [version_json(call, asset, about) for asset in latest_versions(found.versions)]
    answer: Document = {
        "name": found.name,
        "creation_timestamp": found.created_ms,
        "last_updated_timestamp": found.updated_ms,
        "description": about.description,
        "latest_versions": latest,
        "tags": tags_json(about.tags),
        "aliases": aliases,
    }
    return {key: value for key, value in answer.items() if value not in ("", [])}


def version_json(call: Call, asset: Asset, about: ModelAbout) -> Document:
    """Return a version as MLflow's JSON."""
    spec = from_plain(ModelSpec, asset.document)
    answer: Document = {
        "name": asset.name,
        "version": str(asset.version),
        "creation_timestamp": milliseconds(asset.created_at),
        "last_updated_timestamp": milliseconds(asset.updated_at),
        "description": spec.description,
        "current_stage": spec.stage or NO_STAGE,
        "source": source_of(asset, spec),
        "run_id": spec.run_id or "",
        "run_link": spec.run_link,
        "status": "READY",
        "tags": tags_json(spec.tags),
        "aliases": [alias for alias, version in about.aliases.items() if version == asset.version],
        "model_id": spec.logged_model or None,
    }
    return {key: value for key, value in answer.items() if value not in ([], None)}


def latest_versions(versions: Sequence[Asset]) -> list[Asset]:
    """Return the latest version of each stage."""
    return list({asset.document.get("stage") or NO_STAGE: asset for asset in versions}.values())


def source_of(asset: Asset, spec: ModelSpec) -> str:
    """Return where a version came from, as MLflow's clients name it; of an upload, where its files are."""
    if spec.source:
        return spec.source
    return f"runs:/{spec.run_id}/{spec.run_path}" if spec.run_id and spec.run_path else folder_of(asset)


def download_uri(call: Call, asset: Asset) -> str:
    """Return where MLflow's clients load a version from: its own files, or what its source says when it has none."""
    spec = spec_of(call.context.services, asset)
    if spec.files or is_prompt(spec):
        return folder_of(asset) if spec.files else source_of(asset, spec)
    return spec.location or source_of(asset, spec)


def folder_of(asset: Asset) -> str:
    """Return the address of a version's files."""
    name = asset.name if _PLAIN.fullmatch(asset.name) else quote(quote(asset.name, safe=""))
    return f"{REGISTERED}/{name}/{asset.version}"


def find_quoted(call: Call, name: str) -> Registered | None:
    """Return the registered model of a name in an address: plain, or encoded twice, of which clients decode one."""
    for _ in range(3):
        found = find_registered(call, name)
        if found is not None:
            return found
        name = unquote(name)
    return None


def check_model_name(name: str, field: str = "name") -> str:
    """Return a new name of a registered model."""
    if not name.strip():
        raise missing(field)
    if "/" in name or ":" in name:
        raise MlflowError(f"Invalid model name '{name[:300]}'. Names cannot contain '/' or ':'.")
    return check_asset_name(check_path(name, "name"))


def tags_of(tags: Sequence[Fields]) -> dict[str, str]:
    """Return the tags of a request that makes something."""
    return dict(tag_of(tag) for tag in tags)


def tag_of(fields: Fields) -> tuple[str, str]:
    """Return the tag of a request."""
    key = check_key(fields.text("key"), "name", "key")
    return key, check_length(fields.text("value", ""), "value", MOST_TAG)
