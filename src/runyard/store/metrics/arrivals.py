"""What the parts of a ship bring to each series, gathered before anything is written. Pure; every store uses it.

How a series grows: which rows an arrival of points writes. Pure.

Rows hold 4,096 points. The last row is *open* while it has fewer, and is rewritten as points come. Rewriting thousands
of points for every single one that a live run logs would write megabytes per second, so the newest points, fewer than
128, wait in the series' *tail*, which is small: it fits a page of the database.

Tails: the newest points of a series, few and not compressed, so that one more is a matter of microseconds.

A tail is a head (kind, CRC of kind and rest), then 24 bytes per point (step, time, value); of JSON, a chunk.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.core.formats.documents import RunWarning
from runyard.core.records import Mark
from runyard.store.base import ArtifactMetric, Points, Rows, SegmentPart
from runyard.store.metrics.chunks import (
    CHUNK_POINTS,
    CODES,
    F8,
    JSON,
    NAMES,
    Columns,
    concatenate,
    decode,
    encode,
    join,
    settle,
)
from runyard.store.text import DamagedBytes, clean

if TYPE_CHECKING:
    from numpy.typing import NDArray


SCALAR, TABLE, ARTIFACT = "scalar", "table", "artifact"
ROWS = ""  # the column of a table that has a point per row: it counts them and keeps their times
SERVER_ROLES = frozenset({"ps", "server", "parameter_server"})
TAIL_POINTS = 128
_HEAD = struct.Struct("<B3xI")
_POINT = 24


@dataclass(frozen=True)
class SeriesKey:
    """Names a series within an attempt."""

    metric: str
    column: str
    server: int  # 1 for parameter servers, which come after all workers
    rank: int
    writer: str
    segment: int


@dataclass
class Arrival:
    """Points that came for one series, in journal order."""

    wall_offset_ns: int
    pieces: list[_SeriesPiece] = field(default_factory=list)

    def add(self, points: Points) -> None:
        """Add points of the series; scalars get the narrowest kind that holds them."""
        kind, values = points.kind, points.values
        if isinstance(values, list):
            kind, values = settle(values)
        self.pieces.append(_SeriesPiece(kind, values, np.asarray(points.times, dtype=np.int64), points.steps))

    def add_cell(self, value: Any, time: int, row: int) -> None:
        """Add a table's cell; cells that follow one another are one piece, so that a row costs no array."""
        if not self.pieces or self.pieces[-1].cells is None:
            self.pieces.append(_SeriesPiece(JSON, [], None, None, cells=([], [])))
        last = self.pieces[-1]
        assert last.cells is not None and isinstance(last.values, list)
        last.values.append(value)
        last.cells[0].append(time)
        last.cells[1].append(row)

    @property
    def numbered(self) -> bool:
        """Whether no point came with a step of its own."""
        return all(piece.steps is None and piece.cells is None for piece in self.pieces)

    def columns(self, count: int) -> Columns:
        """Return all points; those without a step are numbered from `count`, the points that were there before."""
        found = []
        for piece in self.pieces:
            found.append(piece.columns(count))
            count += len(found[-1])
        return concatenate(found)


@dataclass
class _SeriesPiece:
    kind: str
    values: Any
    times: NDArray[np.int64] | None
    steps: NDArray[np.int64] | None
    cells: tuple[list[int], list[int]] | None = None  # times and row numbers of a table's cells

    def columns(self, count: int) -> Columns:
        if self.cells is not None:
            kind, values = settle(self.values)
            times, rows = (np.array(numbers, dtype=np.int64) for numbers in self.cells)
            return Columns(kind, values, rows, times)
        assert self.times is not None
        steps = np.arange(count, count + len(self.times), dtype=np.int64) if self.steps is None else self.steps
        values = self.values
        if self.kind != JSON:
            values = np.asarray(values, dtype="f8" if self.kind == F8 else "i8")
        return Columns(self.kind, values, np.asarray(steps, dtype=np.int64), self.times)


@dataclass
class Arrivals:
    """All that one ship brings. `kind_of` tells the kind of a metric that exists, `rows_of` the rows of a table."""

    kind_of: Callable[[str], str | None]
    rows_of: Callable[[SeriesKey], int]
    series: dict[SeriesKey, Arrival] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # of metrics that this ship names, in order
    columns: dict[tuple[str, str], None] = field(default_factory=dict)  # (metric, column), in order
    files: list[ArtifactMetric] = field(default_factory=list)
    _warnings: dict[str, None] = field(default_factory=dict)
    _rows: dict[SeriesKey, int] = field(default_factory=dict)

    @property
    def warnings(self) -> list[RunWarning]:
        """Return what was left out, as warnings for the run's record."""
        return [{"source": "metrics", "message": message} for message in self._warnings]

    def add(self, part: SegmentPart) -> None:
        """Gather what a part brings. Call once per part, in the order of its segment."""
        for item in part.content:
            if isinstance(item, Points):
                if len(item.times) and self._fits(item.metric, SCALAR):
                    self._arrival(part, clean(item.metric), clean(item.column)).add(item)
            elif isinstance(item, Rows):
                if len(item.times) and self._fits(item.metric, TABLE):
                    self._add_rows(part, item)
            elif self._fits(item.metric, ARTIFACT):
                self.columns.setdefault((clean(item.metric), ""))
                self.files.append(item)

    def _fits(self, metric: str, kind: str) -> bool:
        name = clean(metric)
        if name not in self.kinds:
            self.kinds[name] = self.kind_of(name) or kind
        if self.kinds[name] == kind:
            return True
        message = f"Metric `{name}` is a {self.kinds[name]}; what was logged under that name as a {kind} was left out."
        self._warnings.setdefault(message)
        return False

    def _add_rows(self, part: SegmentPart, rows: Rows) -> None:
        metric = clean(rows.metric)
        key = _key(part, metric, ROWS)
        if key not in self._rows:
            self._rows[key] = self.rows_of(key)
        base, times = self._rows[key], [int(time) for time in rows.times]
        self._rows[key] = base + len(times)
        numbers = np.zeros(len(times), dtype=np.int64)
        self._arrival(part, metric, ROWS).add(Points(metric, "i8", numbers, np.array(times, dtype=np.int64)))
        for column, values in rows.columns.items():
            self._add_column(
                part, metric, clean(str(column)) or " ", zip(values, times, range(base, base + len(times)))
            )

    def _add_column(self, part: SegmentPart, metric: str, column: str, cells: Iterable[tuple[Any, int, int]]) -> None:
        self.columns.setdefault((metric, column))
        for value, time, row in cells:
            if value is not None:
                self._arrival(part, metric, column).add_cell(value, time, row)

    def _arrival(self, part: SegmentPart, metric: str, column: str) -> Arrival:
        self.columns.setdefault((metric, column))
        key = _key(part, metric, column)
        found = self.series.get(key)
        if found is None:
            found = self.series[key] = Arrival(part.wall_offset_ns)
        return found


def accept(parts: Sequence[SegmentPart], marks: dict[tuple[str, int], int]) -> Iterator[SegmentPart]:
    """Yield the parts that follow their segment's mark, moving `marks`; what was stored before is passed over."""
    for part in parts:
        place = (part.writer, part.segment)
        if part.start == marks.setdefault(place, 0) and part.end >= part.start:
            marks[place] = part.end
            yield part


def to_marks(marks: dict[tuple[str, int], int]) -> list[Mark]:
    """Return marks sorted by writer and segment."""
    return [Mark(writer, segment, offset) for (writer, segment), offset in sorted(marks.items())]


def _key(part: SegmentPart, metric: str, column: str) -> SeriesKey:
    server = int(part.role in SERVER_ROLES)
    return SeriesKey(metric, column, server, part.rank, part.writer, part.segment)


@dataclass(frozen=True)
class SeriesAppend:
    """What to write when points join a stored series: whole rows, and the new tail."""

    rows: list[tuple[int, Columns]]  # sequence and points of rows to write; the first may replace the open one
    tail: Columns | None
    chunks: int  # rows there are afterwards
    open_count: int  # points in the last row if it is open, else 0


def grow(
    new: Columns, *, tail: Columns | None, chunks: int, open_count: int, load_open: Callable[[], Columns]
) -> SeriesAppend:
    """Return what to write so that `new` follows what is there."""
    waiting = new if tail is None else _join_or_none(tail, new)
    if waiting is None:
        # A tail of another family and many points: it becomes a short row rather than make text of them all.
        assert tail is not None
        sealed = grow_rows(tail, chunks=chunks, open_count=open_count, load_open=load_open, keep_tail=False)
        rest = grow_rows(new, chunks=sealed.chunks, open_count=0, load_open=load_open)
        return SeriesAppend(sealed.rows + rest.rows, rest.tail, rest.chunks, rest.open_count)
    if len(waiting) < TAIL_POINTS:
        return SeriesAppend([], waiting, chunks, open_count)
    return grow_rows(waiting, chunks=chunks, open_count=open_count, load_open=load_open)


def grow_rows(
    points: Columns, *, chunks: int, open_count: int, load_open: Callable[[], Columns], keep_tail: bool = True
) -> SeriesAppend:
    """Return the rows that the points fill, beginning with the open row; what is over becomes the tail."""
    first = chunks
    if open_count:
        joined = _join_or_none(load_open(), points)
        if joined is not None:
            points, first = joined, chunks - 1
    cuts = range(0, len(points), CHUNK_POINTS)
    rows = [(first + index, points.part(at, at + CHUNK_POINTS)) for index, at in enumerate(cuts)]
    tail = None
    if keep_tail and len(rows[-1][1]) < TAIL_POINTS:
        tail = rows.pop()[1]
    last = len(rows[-1][1]) if rows else 0
    return SeriesAppend(rows, tail, first + len(rows), last if last < CHUNK_POINTS else 0)


def _join_or_none(first: Columns, second: Columns) -> Columns | None:
    kind = join(first.kind, second.kind)
    if kind == JSON and first.kind != second.kind and max(len(first), len(second)) >= TAIL_POINTS:
        return None
    return concatenate([first, second])


def append(tail: bytes | None, new: Columns) -> bytes | None:
    """Return the tail with `new` behind it, or None when it would be too long or of two kinds."""
    if new.kind == JSON:
        return None
    if tail is None:
        return pack(new) if len(new) < TAIL_POINTS else None
    code, crc = _HEAD.unpack_from(tail)
    if code != CODES[new.kind] or len(tail) // _POINT + len(new) >= TAIL_POINTS:
        return None
    cells = _cells(new)
    return _HEAD.pack(code, zlib.crc32(cells, crc)) + tail[_HEAD.size :] + cells


def pack(columns: Columns) -> bytes:
    """Return a tail as bytes with a checksum. `unpack` reads them."""
    code = CODES[columns.kind]
    body = encode(columns) if columns.kind == JSON else _cells(columns)
    return _HEAD.pack(code, zlib.crc32(body, code)) + body


def unpack(tail: bytes) -> Columns:
    """Return what `pack` was given.

    Raises:
        Damaged: the bytes are not a tail.
    """
    code, crc = _HEAD.unpack_from(tail) if len(tail) >= _HEAD.size else (0, 0)
    body = tail[_HEAD.size :]
    if code not in NAMES or zlib.crc32(body, code) != crc:
        raise DamagedBytes(f"the tail of a metric, {len(tail)} bytes")
    kind = NAMES[code]
    if kind == JSON:
        return decode(body)
    cells = np.frombuffer(body, "<i8").reshape(-1, 3).T
    steps, times, values = (np.ascontiguousarray(row) for row in cells)
    return Columns(kind, values.view("<f8") if kind == F8 else values, steps, times)


def _cells(columns: Columns) -> bytes:
    values: Any = columns.values
    cells: NDArray[np.int64] = np.empty((len(columns), 3), dtype="<i8")
    cells[:, 0] = columns.steps
    cells[:, 1] = columns.times
    cells[:, 2] = np.ascontiguousarray(values).view("i8")
    return cells.tobytes()
