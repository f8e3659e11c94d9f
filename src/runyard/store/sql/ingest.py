"""Ingest: parts of journals become rows, in the transaction that moves their marks.

One stored series and how points join it: its tail, its open chunk, new chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import bindparam, select, update

from runyard.core.formats.documents import RunWarning
from runyard.core.records import Mark, Run
from runyard.store.base import ArtifactMetric, ImportedPart, Points, SegmentPart
from runyard.store.metrics import arrivals, charts
from runyard.store.metrics.arrivals import ARTIFACT, ROWS, TABLE, Arrival, Arrivals, SeriesKey, accept, grow, to_marks
from runyard.store.metrics.chunks import CODES, JSON, Columns, concatenate, decode, encode
from runyard.store.metrics.http import HTTP_WRITER, check_fits, http_part, without_known
from runyard.store.metrics.imported import SOURCE as IMPORT_SOURCE
from runyard.store.metrics.imported import ImportedPoints
from runyard.store.metrics.merge import Summary, combine, span, summarize
from runyard.store.rules import apply_parts
from runyard.store.sql.database import Insert, Session, Statement, Upsert
from runyard.store.sql.rows import RunRow, change_run, get_run_row, save_run, shared_run_of
from runyard.store.sql.schema import (
    CHUNKS_PER_SERIES,
    SEGMENT_KEY,
    experiments,
    metric_chunks,
    quarantine,
    run_metrics,
    segments,
    series,
)
from runyard.store.text import clean, dump, load

Source = tuple[int, int]  # external writer, attempt

_ARCHIVED = Statement(select(experiments.c.archived).where(experiments.c.id == bindparam("row")))
_STATE = ("count", "kinds", "numbered", "first_time", "last_time", "chunks", "open_count", "tail")
_KEY = ("metric_id", "rank", "external_writer", "attempt", "writer", "segment")
_SERIES = Statement(
    select(series.c.id, *(series.c[name] for name in _STATE)).where(
        *(series.c[name] == bindparam(f"of_{name}") for name in _KEY)
    )
)
_INSERT_SERIES = Insert(series, *_KEY, "server", "wall_offset_ns", *_STATE)
_TOUCHING = Statement(
    select(metric_chunks.c.data).where(
        metric_chunks.c.id >= bindparam("first"),
        metric_chunks.c.id < bindparam("end"),
        metric_chunks.c.last_time >= bindparam("low"),
        metric_chunks.c.first_time <= bindparam("high"),
    )
)
_CHUNKS_OF = Statement(
    select(metric_chunks.c.data)
    .where(metric_chunks.c.id >= bindparam("first"), metric_chunks.c.id < bindparam("end"))
    .order_by(metric_chunks.c.id)
)
_UPDATE_SERIES = Statement(
    update(series).where(series.c.id == bindparam("row")).values({name: bindparam(f"new_{name}") for name in _STATE})
)
_CHUNK_COLUMNS = tuple(column.name for column in metric_chunks.columns)
_PUT_CHUNK = Upsert(
    metric_chunks, *_CHUNK_COLUMNS, keys=("id",), change=[name for name in _CHUNK_COLUMNS if name != "id"]
)
_CHUNK_DATA = Statement(select(metric_chunks.c.data).where(metric_chunks.c.id == bindparam("row")))
_SEGMENT = Statement(
    select(segments.c.mark, segments.c.names).where(
        *(segments.c[name] == bindparam(f"of_{name}") for name in SEGMENT_KEY)
    )
)
_ORIGIN = ("rank", "role", "wall_offset_ns")
_PUT_SEGMENT = Upsert(segments, *SEGMENT_KEY, *_ORIGIN, "mark", "names", keys=SEGMENT_KEY, change=("mark", "names"))
_QUARANTINE = Insert(quarantine, *SEGMENT_KEY, "record")
_SUMMARY_COLUMNS = (
    "server", "rank", "count", "last_value", "minimum", "maximum", "last_external_writer", "last_attempt", "last_time",
    "latest", "latest_step", "latest_ms",
)  # fmt: skip
_METRIC = Statement(
    select(
        run_metrics.c.column, run_metrics.c.id, run_metrics.c.kind, *(run_metrics.c[name] for name in _SUMMARY_COLUMNS)
    ).where(run_metrics.c.run_serial == bindparam("row"), run_metrics.c.name == bindparam("metric"))
)
_INSERT_METRIC = Insert(
    run_metrics,
    "run_serial",
    "workspace_id",
    "experiment_id",
    "child",
    "name",
    "column",
    "kind",
    "last",
    "file",
    *_SUMMARY_COLUMNS,
)
_METRIC_ID = Statement(
    select(run_metrics.c.id).where(
        run_metrics.c.run_serial == bindparam("row"),
        run_metrics.c.name == bindparam("metric"),
        run_metrics.c.column == bindparam("of_column"),
    )
)
_UPDATE_METRIC = Statement(
    update(run_metrics)
    .where(run_metrics.c.id == bindparam("row"))
    .values({name: bindparam(f"new_{name}") for name in ("last", *_SUMMARY_COLUMNS)})
)
_UPDATE_FILE = Statement(
    update(run_metrics)
    .where(run_metrics.c.id == bindparam("row"))
    .values(file=bindparam("new_file"), count=run_metrics.c.count + 1)
)
_NO_SUMMARY = Summary(
    server=1,
    rank=2**31 - 1,
    count=0,
    last_value=None,
    minimum=None,
    maximum=None,
    last_external_writer=0,
    last_attempt=0,
    last_time=0,
    latest=None,
    latest_step=None,
    latest_ms=None,
)


class StoredSeries:
    """A row of `series`; it is made with its first points."""

    def __init__(self, session: Session, metric_id: int, source: Source, key: SeriesKey) -> None:
        self._session = session
        self._server = key.server
        self._key = dict(zip(_KEY, (metric_id, key.rank, *source, clean(key.writer), key.segment)))
        row = self._find()
        self._id: int | None = None if row is None else row[0]
        self._state: dict[str, Any] = dict(zip(_STATE, row[1:])) if row else _empty()

    @property
    def count(self) -> int:
        """How many points the series has."""
        return int(self._state["count"])

    def without_known(self, columns: Columns) -> Columns:
        """Return those of the points that the series lacks, each once."""
        first, last = span(columns.times)
        known: list[Columns] = []
        if self._id is not None and first <= self._state["last_time"]:
            ids = {"first": chunk_id(self._id, 0), "end": chunk_id(self._id + 1, 0)}
            known = [decode(row[0]) for row in self._session.all(_TOUCHING, **ids, low=first, high=last)]
            if self._state["tail"] is not None:
                known.append(arrivals.unpack(self._state["tail"]))
        return without_known(columns, known)

    def read(self) -> Columns:
        """Return all points, in the order in which they came."""
        found = []
        if self._id is not None:
            ids = {"first": chunk_id(self._id, 0), "end": chunk_id(self._id + 1, 0)}
            found = [decode(row[0]) for row in self._session.all(_CHUNKS_OF, **ids)]
        if self._state["tail"] is not None:
            found.append(arrivals.unpack(self._state["tail"]))
        return concatenate(found)

    def add(self, arrival: Arrival, columns: Columns) -> None:
        """Write `columns`, the points of `arrival`, behind what is there."""
        old = self._state
        rows, places = self._place(columns)
        first, last = span(columns.times)
        self._state = {
            **places,
            "count": old["count"] + len(columns),
            "kinds": old["kinds"] | CODES[columns.kind],
            "numbered": int(old["numbered"] and arrival.numbered),
            "first_time": min(first, old["first_time"]) if old["count"] else first,
            "last_time": max(last, old["last_time"]) if old["count"] else last,
        }
        series_id = self._save(arrival.wall_offset_ns)
        self._session.many(_PUT_CHUNK, [_chunk_row(chunk_id(series_id, number), points) for number, points in rows])

    def _place(self, columns: Columns) -> tuple[list[tuple[int, Columns]], dict[str, Any]]:
        """Return the chunks to write and what the row then says of chunks and tail."""
        chunks, opened, tail = (self._state[name] for name in ("chunks", "open_count", "tail"))
        longer = arrivals.append(tail, columns)
        if longer is not None:
            return [], {"chunks": chunks, "open_count": opened, "tail": longer}
        growth = grow(
            columns,
            tail=None if tail is None else arrivals.unpack(tail),
            chunks=chunks,
            open_count=opened,
            load_open=self._load_open,
        )
        packed = None if growth.tail is None else arrivals.pack(growth.tail)
        return growth.rows, {"chunks": growth.chunks, "open_count": growth.open_count, "tail": packed}

    def _load_open(self) -> Columns:
        assert self._id is not None
        row = self._session.one(_CHUNK_DATA, row=chunk_id(self._id, self._state["chunks"] - 1))
        return decode(row[0])

    def _save(self, wall_offset_ns: int) -> int:
        if self._id is None:
            values = {**self._key, **self._state}
            self._session.run(_INSERT_SERIES, server=self._server, wall_offset_ns=wall_offset_ns, **values)
            self._id = self._find()[0]
        else:
            values = {f"new_{name}": value for name, value in self._state.items()}
            self._session.run(_UPDATE_SERIES, row=self._id, **values)
        assert self._id is not None
        return self._id

    def _find(self) -> Any:
        return self._session.one(_SERIES, **{f"of_{name}": value for name, value in self._key.items()})


def chunk_id(series_id: int, sequence: int) -> int:
    """Return the primary key of a chunk: chunks of one series are neighbours."""
    return series_id * CHUNKS_PER_SERIES + sequence


def _empty() -> dict[str, Any]:
    return {**dict.fromkeys(_STATE, 0), "numbered": 1, "tail": None}


def _chunk_row(id: int, points: Columns) -> dict[str, object]:
    row: dict[str, object] = {"id": id, "kind": points.kind, "count": len(points), "data": encode(points)}
    if points.kind == JSON:
        numbers = dict.fromkeys(("minimum", "maximum", "last", "sum", "summary"))
        edges = (points.steps.min(), points.steps.max(), points.times.min(), points.times.max())
    else:
        whole = charts.sum_up(points)
        edges = (whole.first_step.min(), whole.last_step.max(), whole.first_time.min(), whole.last_time.max())
        numbers = {
            "minimum": _real(np.fmin.reduce(whole.minimum)),
            "maximum": _real(np.fmax.reduce(whole.maximum)),
            "last": _real(whole.last[-1]),
            "sum": _real(_sum(points.values)),
            "summary": charts.to_bytes(whole),
        }
    names = ("first_step", "last_step", "first_time", "last_time")
    return {**row, **numbers, **{name: int(edge) for name, edge in zip(names, edges)}}


def _sum(values: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.sum(values, dtype=np.float64)


def _real(value: Any) -> float | None:
    """Return NaN as None: not every database keeps it."""
    number = float(value)
    return None if number != number else number


def ingest(session: Session, run_id: str, source: Source, parts: Sequence[SegmentPart]) -> list[Mark]:
    """Apply parts. See RunStore.ingest."""
    run = get_run_row(session, run_id)
    return _Ingest(session, run_id, run, source).apply(parts)


def log(session: Session, run_id: str, points: Sequence[Points], change: Callable[[Run, bool], Run]) -> Run:
    """Change a run's record and add points of a client without a journal. See RunStore.log."""
    row = get_run_row(session, run_id, to_change=True)
    old = shared_run_of(row.document)
    (archived,) = session.one(_ARCHIVED, row=row.experiment_id)
    changed = change(old, bool(archived))
    if changed is not old:
        save_run(session, row.serial, old, changed)
    if points:
        _Ingest(session, run_id, row, (HTTP_WRITER, 0)).log(points)
    return changed


def import_points(session: Session, run_id: str, parts: Sequence[ImportedPart]) -> tuple[int, list[str]]:
    """Add points of an imported run that it lacks. See RunStore.import_runs."""
    return _Ingest(session, run_id, get_run_row(session, run_id), IMPORT_SOURCE).add_imported(parts)


class _Ingest:
    """One call: what it has looked up so far and what it will write."""

    def __init__(self, session: Session, run_id: str, run: RunRow, source: Source) -> None:
        self._session = session
        self._run_id = run_id
        self._run = run
        self._source = source
        self._metrics: dict[str, dict[str, _Metric]] = {}
        self._series: dict[SeriesKey, StoredSeries] = {}

    def apply(self, parts: Sequence[SegmentPart]) -> list[Mark]:
        marks, names = self._load_segments(parts)
        before = dict(marks)
        accepted = list(accept(parts, marks))
        arrivals = Arrivals(self._kind_of, self._rows_of)
        for part in accepted:
            arrivals.add(part)
            names[part.writer, part.segment].update({str(key): clean(name) for key, name in part.names.items()})
        self._write_metrics(arrivals)
        self._write_run(accepted, arrivals.warnings)
        self._write_quarantine(accepted)
        for part in {(part.writer, part.segment): part for part in accepted}.values():
            place = (part.writer, part.segment)
            if marks[place] != before[place]:
                self._write_segment(part, marks[place], names[place])
        return to_marks(marks)

    def log(self, points: Sequence[Points]) -> None:
        arrivals = Arrivals(self._kind_of, self._rows_of)
        arrivals.add(http_part(points))
        check_fits(self._run_id, arrivals)
        self._write_metrics(arrivals, once=True)

    def add_imported(self, parts: Sequence[ImportedPart]) -> tuple[int, list[str]]:
        """Add the points that an imported run lacks; return how many they were, and notes."""
        arrivals = Arrivals(self._kind_of, self._rows_of)
        imported = ImportedPoints(arrivals, self._rows_of, self._read, self._files_of)
        imported.add(parts)
        self._write_metrics(arrivals)
        return imported.added, imported.notes

    def _read(self, key: SeriesKey) -> Columns:
        return self._series_of(self._columns_of(key.metric)[key.column], key).read()

    def _load_segments(
        self, parts: Sequence[SegmentPart]
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], dict[str, str]]]:
        marks: dict[tuple[str, int], int] = {}
        names: dict[tuple[str, int], dict[str, str]] = {}
        for part in parts:
            place = (part.writer, part.segment)
            if place not in marks:
                key = self._segment_key(part)
                row = self._session.one(_SEGMENT, **{f"of_{name}": value for name, value in key.items()})
                marks[place], names[place] = (0, {}) if row is None else (row[0], load(row[1]))
        return marks, names

    def _kind_of(self, metric: str) -> str | None:
        for found in self._columns_of(metric).values():
            return found.kind
        return None

    def _rows_of(self, key: SeriesKey) -> int:
        metric = self._columns_of(key.metric).get(key.column)
        return 0 if metric is None else self._series_of(metric, key).count

    def _files_of(self, metric: str) -> int:
        found = self._columns_of(metric).get("")
        return 0 if found is None or found.kind != ARTIFACT else found.count

    def _series_of(self, metric: _Metric, key: SeriesKey) -> StoredSeries:
        found = self._series.get(key)
        if found is None:
            found = self._series[key] = StoredSeries(self._session, metric.id, self._source, key)
        return found

    def _columns_of(self, metric: str) -> dict[str, _Metric]:
        found = self._metrics.get(metric)
        if found is None:
            rows = self._session.all(_METRIC, row=self._run.serial, metric=metric)
            found = self._metrics[metric] = {row[0]: _Metric(row[1], row[2], _summary(row[3:])) for row in rows}
        return found

    def _write_metrics(self, arrivals: Arrivals, *, once: bool = False) -> None:
        for name, column in arrivals.columns:
            columns = self._columns_of(name)
            if column not in columns:
                columns[column] = self._insert_metric(name, column, arrivals.kinds[name])
        for key, arrival in arrivals.series.items():
            self._write_series(key, arrival, once=once)
        for item in arrivals.files:
            self._write_file(item)
        for columns in self._metrics.values():
            for metric in columns.values():
                metric.save(self._session)

    def _insert_metric(self, name: str, column: str, kind: str) -> _Metric:
        self._session.run(
            _INSERT_METRIC,
            run_serial=self._run.serial,
            workspace_id=self._run.workspace_id,
            experiment_id=self._run.experiment_id,
            child=self._run.child,
            name=name,
            column=column,
            kind=kind,
            last=None,
            file=None,
            **_summary_values(_NO_SUMMARY),
        )
        row = self._session.one(_METRIC_ID, row=self._run.serial, metric=name, of_column=column)
        return _Metric(row[0], kind, _NO_SUMMARY)

    def _write_series(self, key: SeriesKey, arrival: Arrival, *, once: bool) -> None:
        metric = self._columns_of(key.metric)[key.column]
        stored = self._series_of(metric, key)
        columns = arrival.columns(stored.count)
        if once:
            columns = stored.without_known(columns)
            if not len(columns):
                return
        stored.add(arrival, columns)
        offset = arrival.wall_offset_ns
        new = summarize(
            columns,
            server=key.server,
            rank=key.rank,
            source=self._source,
            wall_offset_ns=offset,
            numbered=arrival.numbered,
        )
        if metric.kind == TABLE and key.column == ROWS:
            new = new.without_numbers()
        metric.add(new)

    def _write_file(self, item: ArtifactMetric) -> None:
        metric = self._columns_of(clean(item.metric))[""]
        self._session.run(_UPDATE_FILE, row=metric.id, new_file=clean(item.file))

    def _write_run(self, parts: Sequence[SegmentPart], warnings: Sequence[RunWarning]) -> None:
        changing = [
            part
            for part in parts
            if part.tags_set or part.tags_remove or part.properties_add or part.parameters_add or part.parameters_log
        ]
        if not changing and not warnings:
            return

        change_run(self._session, self._run_id, lambda run: apply_parts(run, changing, warnings))

    def _write_quarantine(self, parts: Sequence[SegmentPart]) -> None:
        rows = [
            {**self._segment_key(part), "record": dump(dict(record))} for part in parts for record in part.quarantine
        ]
        self._session.many(_QUARANTINE, rows)

    def _write_segment(self, part: SegmentPart, mark: int, names: dict[str, str]) -> None:
        origin = {"rank": part.rank, "role": clean(part.role), "wall_offset_ns": part.wall_offset_ns}
        self._session.run(_PUT_SEGMENT, **self._segment_key(part), **origin, mark=mark, names=dump(names))

    def _segment_key(self, part: SegmentPart) -> dict[str, Any]:
        return dict(zip(SEGMENT_KEY, (self._run.serial, *self._source, clean(part.writer), part.segment)))


class _Metric:
    """A row of run_metrics and the summary it will have."""

    def __init__(self, id: int, kind: str, summary: Summary) -> None:
        self.id = id
        self.kind = kind
        self._summary = summary
        self._changed = False

    @property
    def count(self) -> int:
        return self._summary.count

    def add(self, new: Summary) -> None:
        combined = combine(self._summary, new)
        self._changed = self._changed or combined != self._summary
        self._summary = combined

    def save(self, session: Session) -> None:
        if self._changed:
            values = {f"new_{name}": value for name, value in _summary_values(self._summary).items()}
            session.run(_UPDATE_METRIC, row=self.id, new_last=self._summary.last, **values)
            self._changed = False


def _summary(row: Sequence[Any]) -> Summary:
    found = dict(zip(_SUMMARY_COLUMNS, row))
    last = found["last_value"]
    if found["latest"] is None and found["latest_step"] is not None:
        found["latest"] = math.nan
    return Summary(**{**found, "last_value": None if last is None else load(last)})


def _summary_values(summary: Summary) -> dict[str, object]:
    values = {name: getattr(summary, name) for name in _SUMMARY_COLUMNS}
    latest = None if summary.latest is None else _real(summary.latest)
    return {**values, "last_value": dump(summary.last_value), "latest": latest}
