"""A run of another tracker as the frames that travel: its record, and its points in columns.

Names that the server would refuse are made fit here, each with a note, so that one odd name loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import sys
import unicodedata
from array import array
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from runyard.core.formats.frames import Bytes, pack_frame
from runyard.core.names import MAX_METRIC_NAME
from runyard.imports.records import (
    FAILED,
    JSON,
    UNFINISHED,
    ArtifactPoint,
    ImportedRun,
    ImportSource,
    Part,
    PointPart,
    TableRows,
    short_id,
)

MOST_PARTS_BYTES = 24 << 20  # of the points of one request
MOST_TEXT_POINTS = 10_000  # of one frame


class PointsFrame(NamedTuple):
    """A frame of points."""

    pieces: List[Bytes]
    size: int
    points: int


class NameFitter:
    """Makes names of metrics fit; the same name gets the same one, and no two become one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._fitted: Dict[str, str] = {}

    def fit(self, name: str, notes: List[str]) -> str:
        found = self._fitted.get(name)
        if found is None:
            found = self._fitted[name] = _fit(name, self._most)
        if found != unicodedata.normalize("NFC", name):
            note = f"metric {name[:100]!r} is called {found[:100]!r} here"
            if note not in notes:
                notes.append(note)
        return found


def _fit(name: str, most: int) -> str:
    text = unicodedata.normalize("NFC", name)
    shown = "".join(char if char.isprintable() else "_" for char in text).strip() or "_"
    if shown == text and len(text) <= most:
        return text
    return f"{shown[: most - 9]}-{short_id(name)[:8]}"


def frame_of_run(
    run: ImportedRun, source: ImportSource, *, experiment: str, digest: str, files: str, notes: List[str]
) -> List[Bytes]:
    """Return the frame of the run's record. `digest` and `files` say what of the run is stored once this is."""
    origin: Dict[str, object] = {"source": source.kind, "id": source.id, "digest": digest, "files": files}
    if source.version:
        origin["version"] = source.version
    error = None
    if run.status == UNFINISHED:
        error = {"code": "ImportedUnfinished", "message": "It was still running where it was imported from."}
    elif run.error:
        error = {"code": run.error_code or "UserError", "message": run.error}
    record = {
        "id": run.id,
        "experiment": experiment,
        "status": FAILED if run.status == UNFINISHED else run.status,
        "origin": origin,
        "created_ns": run.created_ns,
        "started_ns": run.started_ns,
        "ended_ns": run.ended_ns,
        "type": run.type,
        "name": run.name,
        "description": run.description,
        "user": run.user,
        "parent_id": run.parent_id,
        "archived": run.archived,
        "tags": run.tags,
        "parameters": run.parameters,
        "properties": run.properties,
        "error": error,
        "notes": notes,
    }
    if run.definition:
        record["definition"] = run.definition
    return pack_frame({"kind": "run"}, json.dumps(record).encode())


def iter_frames_of_points(run: ImportedRun, notes: List[str]) -> Iterator[PointsFrame]:
    """Yield the run's points; each metric is counted from its first point."""
    names = NameFitter(MAX_METRIC_NAME)
    starts: Dict[str, int] = {}
    for part in run.read_points():
        if not len(part):
            continue
        metric = names.fit(part.metric, notes)
        for some in _cut(part):
            start = starts.get(metric, 0)
            starts[metric] = start + len(some)
            yield _frame(metric, some, start)


def _cut(part: Part) -> Iterator[Part]:
    if isinstance(part, ArtifactPoint) or (isinstance(part, PointPart) and part.kind != JSON):
        yield part
        return
    for at in range(0, len(part), MOST_TEXT_POINTS):
        end = at + MOST_TEXT_POINTS
        if isinstance(part, TableRows):
            columns = {name: values[at:end] for name, values in part.columns.items()}
            yield TableRows(part.metric, columns, part.times_ns[at:end])
        else:
            yield PointPart(part.metric, part.steps[at:end], part.times_ns[at:end], part.values[at:end], part.kind)


def _frame(metric: str, part: Part, start: int) -> PointsFrame:
    head: Dict[str, object] = {"kind": "points", "metric": metric, "start": start, "count": len(part)}
    if isinstance(part, ArtifactPoint):
        head.update(kind="artifact", type=part.kind, file=part.file, time=part.time_ns)
        body = b""
    elif isinstance(part, TableRows):
        head["kind"] = "rows"
        body = json.dumps({"times": part.times_ns, "columns": part.columns}).encode()
    elif part.kind == JSON:
        head["type"] = JSON
        body = b"".join([_packed(part.steps), _packed(part.times_ns), json.dumps(list(part.values)).encode()])
    else:
        head["type"] = part.kind
        body = b"".join([_packed(part.steps), _packed(part.times_ns), _packed(part.values)])
    pieces = pack_frame(head, body)
    return PointsFrame(pieces, sum(map(len, pieces)), len(part))


def _packed(column: Any) -> bytes:
    """Return 64-bit numbers as they travel, the low byte first."""
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return bytes(column.tobytes())


class Digest:
    """What a run is, with all its points, as a short text; where the source lies does not matter."""

    def __init__(self, run: ImportedRun) -> None:
        self._sums = hashlib.sha256(run.describe())

    def add(self, piece: PointsFrame) -> None:
        for some in piece.pieces:
            self._sums.update(some)

    def text(self) -> str:
        return self._sums.hexdigest()[:32]


def is_same(origin: Optional[Mapping[str, Any]], digest: str) -> bool:
    return bool(origin) and origin is not None and origin.get("digest") == digest
