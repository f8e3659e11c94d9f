"""One stored series and how points join it: its tail, its open chunk, new chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlalchemy import bindparam, select, update

from runyard.store.metrics import charts, tails
from runyard.store.metrics.arrivals import Arrival, SeriesKey
from runyard.store.metrics.chunks import Columns, decode, encode
from runyard.store.metrics.growth import grow
from runyard.store.metrics.kinds import CODES, JSON
from runyard.store.metrics.summaries import span
from runyard.store.sql.database import Session
from runyard.store.sql.schema import CHUNKS_PER_SERIES, metric_chunks, series
from runyard.store.sql.statements import Insert, Statement, Upsert
from runyard.store.text import clean

_STATE = ("count", "kinds", "numbered", "first_time", "last_time", "chunks", "open_count", "tail")
_KEY = ("metric_id", "rank", "attempt", "writer", "segment")
_SERIES = Statement(
    select(series.c.id, *(series.c[name] for name in _STATE)).where(
        *(series.c[name] == bindparam(f"of_{name}") for name in _KEY)
    )
)
_INSERT_SERIES = Insert(series, *_KEY, "server", "wall_offset_ns", *_STATE)
_UPDATE_SERIES = Statement(
    update(series).where(series.c.id == bindparam("row")).values({name: bindparam(f"new_{name}") for name in _STATE})
)
_CHUNK_COLUMNS = tuple(column.name for column in metric_chunks.columns)
_PUT_CHUNK = Upsert(
    metric_chunks, *_CHUNK_COLUMNS, keys=("id",), change=[name for name in _CHUNK_COLUMNS if name != "id"]
)
_CHUNK_DATA = Statement(select(metric_chunks.c.data).where(metric_chunks.c.id == bindparam("row")))


class StoredSeries:
    """A row of `series`; it is made with its first points."""

    def __init__(self, session: Session, metric_id: int, attempt: int, key: SeriesKey) -> None:
        self._session = session
        self._server = key.server
        self._key = {
            "metric_id": metric_id,
            "rank": key.rank,
            "attempt": attempt,
            "writer": clean(key.writer),
            "segment": key.segment,
        }
        row = self._find()
        self._id: int | None = None if row is None else row[0]
        self._state: dict[str, Any] = dict(zip(_STATE, row[1:])) if row else _empty()

    @property
    def count(self) -> int:
        return int(self._state["count"])

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
        longer = tails.append(tail, columns)
        if longer is not None:
            return [], {"chunks": chunks, "open_count": opened, "tail": longer}
        growth = grow(
            columns,
            tail=None if tail is None else tails.unpack(tail),
            chunks=chunks,
            open_count=opened,
            load_open=self._load_open,
        )
        packed = None if growth.tail is None else tails.pack(growth.tail)
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
    return series_id * CHUNKS_PER_SERIES + sequence


def _empty() -> dict[str, Any]:
    return {**dict.fromkeys(_STATE, 0), "numbered": 1, "tail": None}


def _chunk_row(id: int, points: Columns) -> dict[str, Any]:
    row: dict[str, Any] = {"id": id, "kind": points.kind, "count": len(points), "data": encode(points)}
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
