"""Routes of imports: runs of other trackers come with their ids, times and points, many in one request.

A request is frames: one of kind `run` whose body is JSON, then those of its points: kind `points`, with steps, times
and values as columns of 64-bit numbers behind each other, kind `rows` of a table, as JSON, or kind `artifact`, a metric
that is a file of the run. Versions of models, environments and datasets come one in a request, with their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, Optional, Union

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runyard.core.errors import Conflict, InvalidArgument, ProtocolError, RunyardError
from runyard.core.formats.frames import Frame
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.names import (
    check_asset_name,
    check_experiment_name,
    check_metric_name,
    check_run_id,
    check_workspace_name,
    clean_file_name,
)
from runyard.core.records import IMPORTED_PROPERTY, KIND, MODEL_NAME, Asset, ModelAbout, ModelSpec, NewRun
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.submit import parse_parameters
from runyard.server.http.answers import check_stored, json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import ErrorBody, error_body, gives, takes, takes_frames
from runyard.server.http.requests import FRAMES_LIMIT, parse, parse_frames, read_body, with_json
from runyard.store.base import ArtifactMetric, ImportedPart, ImportedRecord, ImportResult, Points, Rows
from runyard.store.record_limits import check_labels

router = APIRouter(prefix="/workspaces/{workspace}/imports", tags=["imports"])
MOST_IDS = 1000
MOST_RUNS = 1000  # of one request, so that others do not wait long for the database
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TYPES = ("imported", "mlflow")
Document = Mapping[str, Any]  # of an asset
_ASSETS = ("environment", "dataset", KIND)


@dataclass(frozen=True)
class ImportIds:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    ids: list[str]


@dataclass(frozen=True)
class ImportRequest:
    """A run of another tracker; times are nanoseconds since 1970. `origin` becomes the property of that name."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    id: str
    experiment: str
    status: RunStatus
    origin: Mapping[str, Any]
    created_ns: int = 0
    started_ns: Optional[int] = None
    ended_ns: Optional[int] = None
    type: str = "imported"
    name: str = ""
    description: str = ""
    user: str = ""  # whose run it was there
    parent_id: Optional[str] = None
    archived: bool = False
    tags: dict[str, Optional[str]] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    error: Optional[Mapping[str, Any]] = None
    notes: list[str] = field(default_factory=list)
    definition: Mapping[str, Any] = field(default_factory=dict)  # Azure's `runDefinition`


@dataclass(frozen=True)
class ImportedVersion:
    """A version of a named thing. `document` of a model is its ModelSpec; `key` makes equal content one version."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: str
    name: str
    version: int
    document: Document
    key: str = ""
    created_ns: int = 0
    updated_ns: int = 0
    about: Optional[ModelAbout] = None  # of a model's name


@dataclass(frozen=True)
class KnownImports:
    known: dict[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ImportedRunAnswer:
    id: str
    new: bool
    points: int
    notes: list[str]


@dataclass(frozen=True)
class RefusedRun:
    id: str
    error: ErrorBody


@dataclass(frozen=True)
class ImportedRuns:
    results: list[Union[ImportedRunAnswer, RefusedRun]]


@dataclass(frozen=True)
class ImportedAssetAnswer:
    name: str
    version: int
    new: bool


@router.post("/known")
@gives(KnownImports)
@takes(ImportIds)
async def find_imported(workspace: str, request: Request) -> Response:
    """Say of each id that is taken where its run was imported from; of another run nothing."""
    return await with_json(request, lambda body: _find(call_of(request), workspace, body))


@router.post("/runs")
@gives(ImportedRuns)
@takes_frames
async def import_runs(workspace: str, request: Request) -> Response:
    """Store runs of another tracker, or what is new of them; says of each how it went."""
    body = await read_body(request, FRAMES_LIMIT)
    return await run_in_threadpool(_import, call_of(request), workspace, body)


@router.post("/assets")
@gives(ImportedAssetAnswer)
@takes(ImportedVersion)
async def import_asset(workspace: str, request: Request) -> Response:
    """Keep a version of a model, an environment or a dataset with its number and times; twice is fine."""
    return await with_json(request, lambda body: _import_asset(call_of(request), workspace, body))


def _find(call: RequestContext, workspace: str, body: bytes) -> Response:
    call.require("import_runs", workspace=workspace)
    ids = parse(ImportIds, body).ids
    if len(ids) > MOST_IDS:
        raise InvalidArgument(f"{len(ids)} ids in one request; {MOST_IDS} is the most.", hint="Send several requests.")
    store, found = call.services.store, dict[str, Mapping[str, Any]]()
    for run_id in map(check_run_id, ids):
        run = store.find_run(run_id)
        if run is not None:
            found[run_id] = _origin(run.properties) if run.workspace == workspace else {}
    return json_answer(KnownImports(found))


def _origin(properties: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        found = json.loads(properties.get(IMPORTED_PROPERTY, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _import(call: RequestContext, workspace: str, body: bytes) -> Response:
    call.require("import_runs", workspace=workspace)
    check_workspace_name(workspace)
    records = list(_records(call, workspace, parse_frames(body)))
    if len(records) > MOST_RUNS:
        raise InvalidArgument(f"{len(records)} runs in one request; {MOST_RUNS} is the most.")
    results = call.services.store.import_runs(records)
    return json_answer(ImportedRuns([_result(record, result) for record, result in zip(records, results)]))


def _records(call: RequestContext, workspace: str, frames: Sequence[Frame]) -> Iterator[ImportedRecord]:
    request: ImportRequest | None = None
    parts: list[ImportedPart] = []
    for head, body in frames:
        kind = str(head.get("kind"))
        if kind == "run":
            if request is not None:
                yield _record(call, workspace, request, parts)
            request, parts = parse(ImportRequest, bytes(body), lenient=True), []
        elif request is None or kind not in _PARTS:
            raise ProtocolError(f"A frame has the kind {kind[:40]!r}.", why="A run comes first, then its points.")
        else:
            parts.append(_PARTS[kind](head, body))
    if request is not None:
        yield _record(call, workspace, request, parts)


def _record(
    call: RequestContext, workspace: str, request: ImportRequest, parts: Sequence[ImportedPart]
) -> ImportedRecord:
    if not request.status.is_terminal or request.type not in _TYPES:
        raise InvalidArgument(
            f"Run `{request.id[:300]}` cannot be imported as {request.type[:40]!r} with status {request.status.value}.",
            why=f"An imported run has ended; its type is {' or '.join(_TYPES)}.",
        )
    script, arguments = request.definition.get("script"), request.definition.get("arguments") or []
    spec = RunSpec(
        target=str(request.definition.get("target") or "local"),
        script=script if isinstance(script, str) else None,
        arguments=[str(one) for one in arguments] if isinstance(arguments, list) else [],
        definition={**request.definition},
    )
    new = NewRun(
        key="",
        spec=spec,
        parameters=parse_parameters(spec.arguments),
        id=check_run_id(request.id),
        workspace=workspace,
        experiment=check_experiment_name(request.experiment),
        type=request.type,
        status=request.status,
        display_name=request.name,
        description=request.description,
        parent_id=None if request.parent_id is None else check_run_id(request.parent_id),
        tags={**request.tags},
        properties=request.properties,
        started_at=_time(request.started_ns),
        submitted_by=request.user or call.user,
        owner=call.user,
    )
    origin = {**request.origin, "created_ns": request.created_ns}
    return ImportedRecord(
        new,
        json.dumps(origin, sort_keys=True),
        created_at=_time(request.created_ns or None),
        ended_at=_time(request.ended_ns),
        archived=request.archived,
        parameters=request.parameters,
        error=request.error,
        notes=request.notes,
        parts=parts,
    )


def _points(head: Mapping[str, Any], body: memoryview) -> ImportedPart:
    import numpy as np  # an idle server stays small without it

    metric, kind, start, count = _head(head)
    values: Any
    if kind == "json":
        try:
            texts = json.loads(bytes(body[16 * count :]))
        except ValueError as error:
            raise ProtocolError(f"The points of metric `{metric}` are no JSON.") from error
        if not isinstance(texts, list) or len(texts) != count or len(body) < 16 * count:
            raise ProtocolError(f"The points of metric `{metric}` are no list of {count} values.")
        values = texts
    elif kind in ("f8", "i8") and len(body) == 24 * count:
        values = np.frombuffer(body, f"<{kind}", count, 16 * count)
    else:
        raise ProtocolError(f"The points of metric `{metric}` are cut off.", why=f"{len(body)} bytes for {count}.")
    steps, times = np.frombuffer(body, "<i8", count), np.frombuffer(body, "<i8", count, 8 * count)
    return ImportedPart(start, Points(metric, kind, values, times, steps))


def _rows(head: Mapping[str, Any], body: memoryview) -> ImportedPart:
    metric, _kind, start, count = _head(head)
    try:
        found = json.loads(bytes(body))
        times = [int(time) for time in found["times"]]
        columns = {str(name): list(values) for name, values in found["columns"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProtocolError(f"The rows of table `{metric}` cannot be read.") from error
    if len(times) != count or any(len(values) != count for values in columns.values()):
        raise ProtocolError(f"The columns of table `{metric}` do not have {count} values each.")
    return ImportedPart(start, Rows(metric, columns, times))


def _artifact(head: Mapping[str, Any], body: memoryview) -> ImportedPart:
    metric, kind, start, _count = _head(head)
    time = head.get("time")
    file = clean_file_name(str(head.get("file")))
    return ImportedPart(start, ArtifactMetric(metric, kind[:100], file, time if type(time) is int else 0))


_PARTS: Mapping[str, Callable[[Mapping[str, Any], memoryview], ImportedPart]] = {
    "points": _points,
    "rows": _rows,
    "artifact": _artifact,
}


def _head(head: Mapping[str, Any]) -> tuple[str, str, int, int]:
    start, count = head.get("start"), head.get("count")
    if type(start) is not int or type(count) is not int or start < 0 or count < 1:
        raise ProtocolError("A frame of points does not say where it starts, and how many they are.")
    return check_metric_name(head.get("metric")), str(head.get("type")), start, count


def _time(ns: int | None) -> datetime | None:
    if ns is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=ns // 1000)
    except OverflowError:
        raise InvalidArgument(f"{ns} is no time in nanoseconds.") from None


def _result(record: ImportedRecord, result: ImportResult | RunyardError) -> ImportedRunAnswer | RefusedRun:
    if isinstance(result, RunyardError):
        return RefusedRun(record.new.id, error_body(result))
    return ImportedRunAnswer(record.new.id, result.is_new, result.points, list(result.notes))


def _import_asset(call: RequestContext, workspace: str, body: bytes) -> Response:
    call.require("import_runs", workspace=workspace)
    wanted = parse(ImportedVersion, body)
    if wanted.kind not in _ASSETS or not 1 <= wanted.version < 1 << 31:
        raise InvalidArgument(
            f"Version {wanted.version} of a {wanted.kind[:40]!r} cannot be imported.",
            why=f"Kinds are {', '.join(_ASSETS)}; versions are numbers from 1 on.",
        )
    name = check_asset_name(wanted.name)
    document = wanted.document if wanted.kind != KIND else _model(call, wanted)
    created = _time(wanted.created_ns or None) or datetime.now(timezone.utc)
    updated = _time(wanted.updated_ns or None) or created
    store = call.services.store
    asset = Asset(
        check_workspace_name(workspace), wanted.kind, name, wanted.version, created, updated, wanted.key, {**document},
        call.user,
    )  # fmt: skip
    stored, is_new = store.import_asset(asset)
    if not is_new:
        _check_same(stored, asset)
        store.edit_asset(
            workspace, wanted.kind, name, lambda old: _with_own(old.document, document), version=wanted.version,
            stamp=False,
        )  # fmt: skip
    if wanted.about is not None:
        _put_about(call, workspace, name, wanted.about)
    return json_answer(ImportedAssetAnswer(name, wanted.version, is_new))


def _model(call: RequestContext, wanted: ImportedVersion) -> Document:
    """Return the document of a model whose files are all stored; one without files is known by what is said of it."""
    spec = from_plain(ModelSpec, wanted.document)
    check_labels(f"The model `{wanted.name}:{wanted.version}`", spec.tags, spec.properties)
    document: Document = to_plain(replace(spec, files=[check_stored(call.services, file) for file in spec.files]))
    return document


def _origin_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return where a version came from; a model says it in its properties."""
    found = document.get(IMPORTED_PROPERTY) or (document.get("properties") or {}).get(IMPORTED_PROPERTY)
    return _origin({IMPORTED_PROPERTY: found}) if isinstance(found, str) else {}


def _check_same(stored: Asset, asset: Asset) -> None:
    found, wanted = _origin_of(stored.document), _origin_of(asset.document)
    if found and all(found.get(key) == wanted.get(key) for key in ("source", "id")):
        return
    raise Conflict(
        f"Version {stored.version} of the {stored.kind} `{stored.name}` is here already.",
        why="It did not come from there.",
        hint="Import into another workspace: --workspace NAME makes one.",
    )


def _with_own(old: Document, new: Document) -> Document:
    """Return the imported document with the tags that were added here."""
    tags = {**(old.get("tags") or {}), **(new.get("tags") or {})}
    kept = {key: old[key] for key in ("labels", "files", "path", "is_folder") if old.get(key) and not new.get(key)}
    return {**new, **kept, **({"tags": tags} if "tags" in new else {})}


def _put_about(call: RequestContext, workspace: str, name: str, about: ModelAbout) -> None:
    """Say of a model's name what its source says; aliases that were set here stay."""
    store = call.services.store
    check_labels(f"The model `{name}`", {**about.tags, **dict.fromkeys(about.aliases, "")})
    store.put_asset(workspace, MODEL_NAME, name, to_plain(ModelAbout()), key="name", owner=call.user)

    def merged(asset: Asset) -> Mapping[str, Any]:
        old = from_plain(ModelAbout, asset.document)
        new = ModelAbout(
            about.description or old.description, {**old.tags, **about.tags}, {**old.aliases, **about.aliases}
        )
        document: Mapping[str, Any] = to_plain(new)
        return document

    store.edit_asset(workspace, MODEL_NAME, name, merged, stamp=False)
