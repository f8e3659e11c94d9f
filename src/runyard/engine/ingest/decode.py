"""Decodes journal bytes into what the store keeps. Hostile bytes end in quarantine, never in an exception.

Numbers go through numpy by the hundred thousand (`columns.py`); every other record is one JSON object.
"""

from __future__ import annotations

import bisect
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from runyard.core.errors import InvalidArgument
from runyard.core.formats import journal
from runyard.core.names import check_metric_name, clean_file_name
from runyard.core.records import MLFLOW_NAME, MLFLOW_NOTE
from runyard.core.statuses import RunStatus
from runyard.engine.ingest import columns
from runyard.engine.ingest.columns import RowBatch, Unusable, row_columns, scalar_list, table_columns
from runyard.engine.runs.submit import MAX_NAME, MAX_VALUE
from runyard.engine.sanitize import redact_variables, storable
from runyard.store.base import ArtifactMetric, Points, Rows, SegmentPart

MAX_ENTRIES = 100
MAX_SAMPLE = 2000
INT64 = range(-(1 << 63), 1 << 63)
_RANK_OF_WRITER = re.compile(r"r(\d{1,6})-")
_ENDS = frozenset(status.value for status in RunStatus if status.is_terminal)


class QuarantinedRecords(TypedDict):
    """Records of one kind that could not be applied for one reason."""

    offset: int  # of the first
    kind: int
    reason: str
    count: int
    sample: str  # the payload of the first, cut


class Quarantine:
    """Records that could not be applied, counted by kind and reason."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, str], QuarantinedRecords] = {}

    def add(self, offset: int, kind: int, reason: str, payload: journal.Payload, *, count: int = 1) -> None:
        """Count a record in; the first of its kind and reason is kept as a sample."""
        key = (kind, reason[:300])
        found = self._entries.get(key)
        if found is None and len(self._entries) >= MAX_ENTRIES:
            key = (0, "many other reasons")
            found = self._entries.get(key)
        if found is not None:
            found["count"] += count
            return
        self._entries[key] = {
            "offset": offset,
            "kind": kind,
            "reason": storable(key[1]),
            "count": count,
            "sample": _sample(payload),
        }

    def entries(self) -> list[QuarantinedRecords]:
        """Return an entry for each kind and reason."""
        return list(self._entries.values())


def _sample(payload: journal.Payload) -> str:
    try:
        return json.dumps(payload, ensure_ascii=True)[:MAX_SAMPLE]
    except RecursionError:
        return ""


@dataclass(frozen=True)
class SegmentOrigin:
    """The process that wrote a segment, and how its clock relates to the wall clock."""

    rank: int
    role: str
    wall_offset_ns: int


def origin_of(header: journal.Payload, writer: str) -> SegmentOrigin:
    """Return what a HEADER says; the writer's id tells the rank where it does not."""
    return SegmentOrigin(_rank(header, writer), storable(str(header.get("role", "worker")))[:64], _wall_offset(header))


def _rank(header: journal.Payload, writer: str) -> int:
    rank = header.get("rank")
    if type(rank) is int and 0 <= rank < 1 << 31:
        return rank
    match = _RANK_OF_WRITER.match(writer)
    return int(match.group(1)) if match else 0


def _wall_offset(header: journal.Payload) -> int:
    wall, monotonic = header.get("wall_ns"), header.get("t")
    if type(wall) is not int or type(monotonic) is not int:
        return 0
    offset = wall - monotonic
    return offset if offset in INT64 else 0


Content = Points | Rows | ArtifactMetric


@dataclass(frozen=True)
class Event:
    """A record that the engine acts on: CHILD, END, FAIL, and of TAGS those that are the run's name and description."""

    kind: int
    offset: int
    payload: journal.Payload


@dataclass(frozen=True)
class Decoded:
    """What some bytes of a segment mean. `end`: an END record right behind the part, to act on once that is stored."""

    part: SegmentPart
    events: list[Event] = field(default_factory=list)
    end: Event | None = None


def decode(
    data: bytes | memoryview,
    *,
    writer: str,
    segment: int,
    base: int,
    names: Mapping[int, str],
    origin: SegmentOrigin | None = None,
    sides: Mapping[str, memoryview] | None = None,
    stops_at_end: bool = True,
) -> Decoded:
    """Return what `data`, which starts on a record at offset `base`, means.

    Args:
        names: name ids defined earlier in this segment.
        origin: what the segment's HEADER said; None: `data` starts with it, if there is one.
        sides: bodies of side files by file name; the part ends before a SIDE record whose file is not there.
        stops_at_end: the part ends before an END record; otherwise those records are passed over.
    """
    reader = _Reader(memoryview(data), base, dict(names), writer)
    reader.origin = origin or reader.origin
    reader.sides = sides or {}
    reader.stops_at_end = stops_at_end
    reader.read()
    return reader.decoded(segment)


@dataclass(frozen=True)
class _Piece:
    """One VALUES record; `place` is the number of cells before it."""

    place: int
    values: list[Any]
    time: int
    step: int | None

    @property
    def kind(self) -> str:
        types = set(map(type, self.values))
        if types == {float}:
            return "f8"
        if types == {bool}:
            return "b1"
        return "i8" if types == {int} and all(value in INT64 for value in self.values) else "json"


class _Reader:
    """Reads one span of a segment and collects what its records mean."""

    def __init__(self, data: memoryview, base: int, names: dict[int, str], writer: str) -> None:
        self.data, self.base, self.writer = data, base, writer
        self.sides: Mapping[str, memoryview] = {}
        self.stops_at_end = True
        self.names = names
        self.end = base
        self.origin = origin_of({}, writer)
        self.new_names: dict[int, str] = {}
        self.spans: list[tuple[int, int]] = []
        self.span_cells: list[int] = []  # how many cells lie before each span
        self.cells = 0
        self.pieces: dict[str, list[_Piece]] = {}
        self.tables: dict[str, RowBatch] = {}
        self.artifacts: list[tuple[int, ArtifactMetric]] = []
        self.first: dict[str, int] = {}
        self.tags: dict[str, tuple[bool, str | None]] = {}
        self.properties: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.logged_parameters: dict[str, str] = {}
        self.events: list[Event] = []
        self.end_event: Event | None = None
        self.quarantine = Quarantine()

    def read(self) -> None:
        for part in journal.iter_parts(self.data, base=self.base):
            if isinstance(part, journal.Span):
                self.spans.append((part.offset - self.base, part.end - self.base))
                self.span_cells.append(self.cells)
                self.cells += (part.end - part.offset) // journal.CELL
            elif not self._long(part):
                return
            self.end = part.end

    def decoded(self, segment: int) -> Decoded:
        content = [item for _offset, items in sorted(self._content(), key=lambda pair: pair[0]) for item in items]
        part = SegmentPart(
            writer=self.writer,
            segment=segment,
            start=self.base,
            end=self.end,
            rank=self.origin.rank,
            role=self.origin.role,
            wall_offset_ns=self.origin.wall_offset_ns,
            names=self.new_names,
            content=content,
            tags_set={key: value for key, (is_set, value) in self.tags.items() if is_set},
            tags_remove=[key for key, (is_set, _value) in self.tags.items() if not is_set],
            properties_add=self.properties,
            parameters_add=redact_variables(self.parameters),
            parameters_log=redact_variables(self.logged_parameters),
            quarantine=self.quarantine.entries(),
        )
        return Decoded(part, self.events, self.end_event)

    def _long(self, record: journal.LongRecord) -> bool:
        """Take one long record in; False: the part ends before it."""
        kind, payload = record.kind, record.payload
        try:
            if kind == journal.SIDE:
                found = self._side(payload)
                if found is None:
                    return False
                kind, payload = found
            if kind == journal.END and self.stops_at_end and _ends(payload):
                self.end_event = Event(kind, record.offset, payload)
                return False
            handler = _HANDLERS.get(kind)
            if handler is None:
                raise Unusable(f"kind {kind} is not known to this server")
            handler(self, record.offset, payload)
        except (Unusable, InvalidArgument) as error:
            self.quarantine.add(record.offset, kind, str(error).partition("\n")[0], payload)
        return True

    def _side(self, payload: journal.Payload) -> tuple[int, journal.Payload] | None:
        body = self.sides.get(str(payload.get("file")))
        if body is None:
            return None
        if len(body) != payload.get("length") or zlib.crc32(body) != payload.get("crc"):
            raise Unusable("its side file is not the one that was written")
        kind = payload.get("kind")
        if type(kind) is not int or kind in (journal.SIDE, journal.HEADER, journal.NAME, journal.END):
            raise Unusable("a side file cannot hold this kind")
        try:
            loaded = json.loads(bytes(body))
        except (ValueError, RecursionError):
            raise Unusable("its side file is not JSON") from None
        if not isinstance(loaded, dict):
            raise Unusable("its side file is not a JSON object")
        return kind, loaded

    def _on_header(self, offset: int, payload: journal.Payload) -> None:
        if offset != 0:
            raise Unusable("a HEADER stands only at the start of a segment")
        self.origin = origin_of(payload, self.writer)

    def _on_name(self, offset: int, payload: journal.Payload) -> None:
        name_id = payload.get("id")
        if type(name_id) is not int or not 0 <= name_id < 1 << 32:
            raise Unusable("its name id is no 32-bit number")
        name = check_metric_name(payload.get("name"))
        if self.names.setdefault(name_id, name) != name:
            raise Unusable(f"name id {name_id} is already `{self.names[name_id]}`")
        self.new_names[name_id] = name

    def _on_values(self, offset: int, payload: journal.Payload) -> None:
        name = self._metric(offset, payload)
        values, step = scalar_list(payload.get("values")), payload.get("step")
        if step is not None and (type(step) is not int or step not in INT64):
            raise Unusable("its step is no 64-bit number")
        if values:
            self.pieces.setdefault(name, []).append(_Piece(self.cells, values, _time(payload), step))

    def _on_row(self, offset: int, payload: journal.Payload) -> None:
        self._rows(offset, payload, row_columns(payload.get("columns")))

    def _on_table(self, offset: int, payload: journal.Payload) -> None:
        self._rows(offset, payload, table_columns(payload.get("columns")))

    def _rows(self, offset: int, payload: journal.Payload, columns: dict[str, list[Any]]) -> None:
        name = self._metric(offset, payload)
        self.tables.setdefault(name, RowBatch(name)).add(columns, _time(payload))

    def _on_artifact(self, offset: int, payload: journal.Payload) -> None:
        name = self._metric(offset, payload)
        file, kind = payload.get("file"), payload.get("kind")
        if not isinstance(file, str) or not isinstance(kind, str):
            raise Unusable("it names no file")
        metric = ArtifactMetric(name, storable(kind)[:64], clean_file_name(file), _time(payload))
        self.artifacts.append((offset, metric))

    def _on_tags(self, offset: int, payload: journal.Payload) -> None:
        values, removed = payload.get("set") or {}, payload.get("remove") or []
        if not isinstance(values, dict) or not isinstance(removed, list):
            raise Unusable("its tags are not `set` and `remove`")
        told = {key: values[key] for key in (MLFLOW_NAME, MLFLOW_NOTE) if key in values}
        if MLFLOW_NOTE in removed:
            told[MLFLOW_NOTE] = ""
        if told:
            self.events.append(Event(journal.TAGS, offset, told))
            values = {key: value for key, value in values.items() if key not in told}
            removed = [key for key in removed if key not in told]
        for key, value in values.items():
            self.tags[storable(key)] = (True, None if value is None else storable(_text(value)))
        for key in removed:
            self.tags[storable(_text(key))] = (False, None)

    def _on_properties(self, _offset: int, payload: journal.Payload) -> None:
        added, parameters = payload.get("add"), payload.get("parameters") or {}
        if not isinstance(added, dict) or not isinstance(parameters, dict):
            raise Unusable("it adds no properties")
        for key, value in added.items():
            self.properties.setdefault(storable(key), storable(_text(value)))
        for key, value in parameters.items():
            self.parameters.setdefault(storable(key)[:MAX_NAME], storable(_text(value))[:MAX_VALUE])

    def _on_param(self, _offset: int, payload: journal.Payload) -> None:
        key, value = payload.get("key"), payload.get("value")
        if not isinstance(key, str) or not key:
            raise Unusable("it names no parameter")
        name, text = storable(key)[:MAX_NAME], storable(_text(value))[:MAX_VALUE]
        if self.logged_parameters.setdefault(name, text) != text:
            raise Unusable(f"the parameter `{name}` has another value already; the first one stays")

    def _on_event(self, offset: int, payload: journal.Payload, kind: int) -> None:
        self.events.append(Event(kind, offset, payload))

    def _metric(self, offset: int, payload: journal.Payload) -> str:
        name = check_metric_name(payload.get("name"))
        self.first.setdefault(name, offset)
        return name

    def _content(self) -> Iterator[tuple[int, list[Content]]]:
        for offset, artifact in self.artifacts:
            yield offset, [artifact]
        for name, batch in self.tables.items():
            yield self.first[name], list(batch.rows())
        seen = set()
        for name, column in self._columns():
            seen.add(name)
            offset = self._offset(column.first)
            yield min(offset, self.first.get(name, offset)), list(_merge(name, column, self.pieces.get(name, [])))
        for name in self.pieces.keys() - seen:
            yield self.first[name], list(_join(name, self.pieces[name]))

    def _columns(self) -> Iterator[tuple[str, columns.NumberColumn]]:
        if not self.cells:
            return
        cells = columns.gather(self.data, self.spans)
        metrics = list(dict.fromkeys(self.names.values()))
        code_of = {name: code for code, name in enumerate(metrics)}
        unknown = len(metrics)
        codes = columns.encode(cells["name"], {key: code_of[name] for key, name in self.names.items()}, unknown)
        for column in columns.iter_columns(cells, codes):
            if column.code < unknown:
                yield metrics[column.code], column
                continue
            ids, counts = np.unique(cells["name"][column.places], return_counts=True)
            for name_id, count in zip(ids.tolist(), counts.tolist()):
                reason = f"name id {name_id} was never defined in this segment"
                self.quarantine.add(self._offset(column.first), journal.FLOAT, reason, {}, count=count)

    def _offset(self, cell: int) -> int:
        """Return the segment offset of the cell with that index among all cells."""
        at = bisect.bisect_right(self.span_cells, cell) - 1
        return self.base + self.spans[at][0] + (cell - self.span_cells[at]) * journal.CELL


_HANDLERS: dict[int, Callable[[_Reader, int, journal.Payload], None]] = {
    journal.HEADER: _Reader._on_header,
    journal.NAME: _Reader._on_name,
    journal.VALUES: _Reader._on_values,
    journal.ROW: _Reader._on_row,
    journal.TABLE: _Reader._on_table,
    journal.ARTIFACT: _Reader._on_artifact,
    journal.TAGS: _Reader._on_tags,
    journal.PROPERTIES: _Reader._on_properties,
    journal.PARAM: _Reader._on_param,
    journal.FILE: lambda reader, offset, payload: None,  # the supervisor acted on it
    journal.CHILD: lambda reader, offset, payload: reader._on_event(offset, payload, journal.CHILD),
    journal.FAIL: lambda reader, offset, payload: reader._on_event(offset, payload, journal.FAIL),
    journal.END: lambda reader, offset, payload: None,  # acted on already, or it ends nothing
}


def _merge(name: str, column: columns.NumberColumn, pieces: list[_Piece]) -> Iterator[Points]:
    """Yield number cells and VALUES records of one metric in journal order."""
    start = 0
    for place, group in groupby(pieces, key=lambda piece: int(np.searchsorted(column.places, piece.place))):
        if place > start:
            yield from columns.points_of(name, columns.cut(column, start, place))
            start = place
        yield from _join(name, list(group))
    if start == 0:
        yield from columns.points_of(name, column)
    elif start < len(column.places):
        yield from columns.points_of(name, columns.cut(column, start, len(column.places)))


def _join(name: str, pieces: list[_Piece]) -> Iterator[Points]:
    for (kind, stepless), group in groupby(pieces, key=lambda piece: (piece.kind, piece.step is None)):
        members = list(group)
        values: list[Any] = [value for piece in members for value in piece.values]
        counts = [len(piece.values) for piece in members]
        yield Points(
            metric=name,
            kind=kind,
            values=_packed(kind, values),
            times=np.repeat(np.array([piece.time for piece in members], dtype=np.int64), counts),
            steps=None if stepless else np.repeat(np.array([p.step for p in members], dtype=np.int64), counts),
        )


def _packed(kind: str, values: list[Any]) -> NDArray[np.float64] | NDArray[np.int64] | list[Any]:
    if kind == "json":
        return values
    return np.array(values, dtype=np.float64) if kind == "f8" else np.array(values, dtype=np.int64)


def _ends(payload: Mapping[str, Any]) -> bool:
    """Whether an END record names a status that a run can end in."""
    status = payload.get("status")
    return isinstance(status, str) and status in _ENDS


def _time(payload: Mapping[str, Any]) -> int:
    time = payload.get("t")
    return time if type(time) is int and time in INT64 else 0


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    raise Unusable(f"a {type(value).__name__} stands where text should be")
