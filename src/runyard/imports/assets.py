"""Writes the models, environments and datasets of a source into a workspace; versions keep their numbers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from runyard.client.calls.workspace import ModelCalls
from runyard.client.client import Client
from runyard.core.errors import InvalidArgument, RunyardError, UserError, is_later
from runyard.core.formats.plain import to_plain
from runyard.core.names import check_asset_name
from runyard.core.records import IMPORTED_PROPERTY, ModelAbout, ModelSpec, RunFile
from runyard.imports.records import ImportedAsset, ImportedModel, ImportSource, SourceFile
from runyard.imports.report import NEW, SAME, ImportReport
from runyard.imports.uploads import NONE, FileSender, wanted_files
from runyard.imports.writer import ImportOptions, told

Document = Mapping[str, Any]


class MadeAsset(NamedTuple):
    """What an environment or a dataset of a source is here. `key` is equal for equal content."""

    document: Document
    key: str
    notes: List[str]  # what was left out


MakeAsset = Callable[[ImportedAsset], Optional[MadeAsset]]  # None: it was put where it belongs


def write_assets(
    client: Client,
    source: ImportSource,
    options: ImportOptions,
    report: ImportReport,
    *,
    make: MakeAsset,
    moved: Callable[[int], None] = lambda size: None,
) -> None:
    """Bring models, environments and datasets in, after the runs. May be repeated.

    Args:
        make: turns an environment or a dataset of the source into ours; raises ValueError when it cannot.
        moved: called with the bytes of files as they are read.
    """
    writer = _AssetWriter(client, source, options, report, FileSender(client, moved))
    for model in source.iter_models():
        writer.guard(f"model {model.name}:{model.version}", lambda model=model: writer.put_model(model))  # type: ignore[misc]
    for asset in source.iter_assets():
        what = f"{asset.kind} {asset.name}" + (f":{asset.version}" if asset.version else "")
        writer.guard(what, lambda asset=asset, what=what: writer.put_asset(asset, make(asset), what))  # type: ignore[misc]


def list_models(client: Client, workspace: str) -> Set[Tuple[str, int]]:
    """Return name and version of the models that are here."""
    return {(one.name, one.version) for one in ModelCalls(client.transport).list(workspace)}


class _AssetWriter:
    def __init__(
        self, client: Client, source: ImportSource, options: ImportOptions, report: ImportReport, sender: FileSender
    ) -> None:
        self._client = client
        self._source = source
        self._options = options
        self._report = report
        self._sender = sender
        self._known: Dict[Tuple[str, str], Dict[int, Document]] = {}

    def guard(self, what: str, work: Callable[[], None]) -> None:
        """Do one of them; the others come all the same when it cannot be done."""
        try:
            work()
        except (OSError, ValueError, UserError) as error:
            if isinstance(error, RunyardError) and is_later(error):
                raise
            self._report.fail(what, told(error) if isinstance(error, RunyardError) else str(error))

    def put_model(self, model: ImportedModel) -> None:
        what, name = f"model {model.name}:{model.version}", self._name(model.name)
        wanted = wanted_files(model.files, self._options.files)
        which = NONE if model.files and not wanted else self._options.files
        digest = _digest([asdict(replace(model, files=[])), [[one.name, one.size] for one in model.files]])
        known = self._origin("model", name, model.version)
        if known.get("digest") == digest and which in (NONE, known.get("files")):
            self._report.count(self._report.models, SAME)
            return
        files, faults = self._send(wanted)
        for fault in faults:
            self._report.fail(what, fault)
        origin = self._made_origin("" if faults else digest, files=which if files else NONE)
        spec = _spec_of(model, files, origin)
        about = ModelAbout(model.about, {}, dict.fromkeys(model.aliases, model.version))
        is_new = self._client.imports.put_asset(
            self._options.workspace,
            "model",
            name,
            model.version,
            to_plain(spec),
            created_ns=model.created_ns,
            updated_ns=model.updated_ns,
            about=to_plain(about) if model.aliases or model.about else None,
        )
        self._report.count(self._report.models, NEW if is_new or not faults else SAME)

    def put_asset(self, asset: ImportedAsset, made: Optional[MadeAsset], what: str) -> None:
        if made is None:
            self._report.count(self._report.assets, SAME)
            return
        name = self._name(asset.name)
        digest = _digest([made.document, made.notes])
        document = {**made.document, IMPORTED_PROPERTY: self._made_origin(digest)}
        if not asset.version:  # the source's word for the version is no number: the next one here
            self._put_next(asset, name, document, made, what)
            return
        if self._origin(asset.kind, name, asset.version).get("digest") == digest:
            self._report.count(self._report.assets, SAME)
            return
        self._client.imports.put_asset(
            self._options.workspace,
            asset.kind,
            name,
            asset.version,
            document,
            key=made.key,
            created_ns=asset.created_ns,
        )
        self._count_new(made, what)

    def _put_next(self, asset: ImportedAsset, name: str, document: Document, made: MadeAsset, what: str) -> None:
        known = self._versions(asset.kind, name).values()
        if any(_origin_of(one).get("digest") == _origin_of(document).get("digest") for one in known):
            self._report.count(self._report.assets, SAME)
            return
        self._client.assets.put(self._options.workspace, asset.kind, name, document, key=made.key)
        self._count_new(made, what)

    def _count_new(self, made: MadeAsset, what: str) -> None:
        self._report.count(self._report.assets, NEW)
        for note in made.notes:
            self._report.note(what, note)

    def _name(self, name: str) -> str:
        try:
            return check_asset_name(name)
        except InvalidArgument as error:
            raise ValueError(told(error)) from None

    def _send(self, files: List[SourceFile]) -> Tuple[List[RunFile], List[str]]:
        sent: List[RunFile] = []
        faults: List[str] = []
        for some, unread in self._sender.send(files):
            sent += some
            faults += unread
        self._report.add(files=len(sent), size=sum(file.size for file in sent))
        return sent, faults

    def _made_origin(self, digest: str, **more: str) -> str:
        return json.dumps({"source": self._source.kind, "id": self._source.id, "digest": digest, **more})

    def _origin(self, kind: str, name: str, version: int) -> Mapping[str, Any]:
        return _origin_of(self._versions(kind, name).get(version) or {})

    def _versions(self, kind: str, name: str) -> Dict[int, Document]:
        """Return the documents that are here by version; asked for once."""
        if (kind, name) not in self._known:
            workspace = self._options.workspace
            if kind == "model":
                found = {
                    one.version: {"properties": one.spec.properties}
                    for one in ModelCalls(self._client.transport).list(workspace, name=name)
                }
            else:
                found = {one.version: one.document for one in self._client.assets.list(workspace, kind, name=name)}
            self._known[kind, name] = {**found}
        return self._known[kind, name]


def _spec_of(model: ImportedModel, files: List[RunFile], origin: str) -> ModelSpec:
    stage = model.properties.get("mlflow.stage", "")
    return ModelSpec(
        path=model.run_path if files else "",
        is_folder=any("/" in file.name for file in files),
        files=files,
        description=model.description,
        tags=model.tags,
        properties={**model.properties, IMPORTED_PROPERTY: origin},
        framework=model.framework or "Custom",
        framework_version=model.framework_version,
        run_id=model.run_id,
        experiment=model.experiment,
        datasets=model.datasets,
        created_by=model.user,
        stage="" if stage == "None" else stage,
        source=model.properties.get("mlflow.source", ""),
        run_path=model.run_path if model.run_id else "",
    )


def _origin_of(document: Document) -> Mapping[str, Any]:
    text = document.get(IMPORTED_PROPERTY) or (document.get("properties") or {}).get(IMPORTED_PROPERTY)
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]
