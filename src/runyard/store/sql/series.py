"""Reading points: whole series, and charts from the summaries beside the chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, bindparam, select

from runyard.core.errors import InvalidArgument, NotFound
from runyard.store.base import ALL_RANKS, STEP, TIME, Chart, History, Series, ValueParts
from runyard.store.metrics import arrivals, charts
from runyard.store.metrics.arrivals import ARTIFACT, ROWS, TABLE
from runyard.store.metrics.charts import BLOCK_POINTS, MAX_WIDTH, Blocks, Window, chart_of_series, not_numeric, to_chart
from runyard.store.metrics.chunks import CODES, F8, JSON, Columns, concatenate, convert, decode, join_codes
from runyard.store.metrics.history import MS, Block, history_of, history_of_columns, window
from runyard.store.metrics.merge import Piece, fill, merge
from runyard.store.sql.database import Session, Statement
from runyard.store.sql.rows import get_serial
from runyard.store.sql.schema import CHUNKS_PER_SERIES, metric_chunks, run_metrics, series
from runyard.store.text import DamagedBytes, clean

_METRIC = Statement(
    select(run_metrics.c.column, run_metrics.c.id, run_metrics.c.kind)
    .where(run_metrics.c.run_serial == bindparam("row"), run_metrics.c.name == bindparam("metric"))
    .order_by(run_metrics.c.id)
)
_SERIES = Statement(
    select(
        series.c.id,
        series.c.server,
        series.c.rank,
        series.c.external_writer,
        series.c.attempt,
        series.c.writer,
        series.c.segment,
        series.c.wall_offset_ns,
        series.c.count,
        series.c.kinds,
        series.c.numbered,
        series.c.first_time,
        series.c.last_time,
        series.c.tail,
    )
    .where(series.c.metric_id == bindparam("metric"))
    .order_by(
        series.c.server,
        series.c.rank,
        series.c.external_writer,
        series.c.attempt,
        series.c.writer,
        series.c.segment,
    )
)
_IN_SERIES = (metric_chunks.c.id >= bindparam("first"), metric_chunks.c.id < bindparam("end"))
_DATA = Statement(select(metric_chunks.c.data).where(*_IN_SERIES).order_by(metric_chunks.c.id))
_SPANS = Statement(
    select(metric_chunks.c.id, metric_chunks.c.count, metric_chunks.c.first_time, metric_chunks.c.last_time)
    .where(*_IN_SERIES)
    .order_by(metric_chunks.c.id)
)
_ONE_DATA = Statement(select(metric_chunks.c.data).where(metric_chunks.c.id == bindparam("row")))


class _Touching:
    """Statements about the chunks of a series that touch the range `low` to `high` of steps or of times."""

    def __init__(self, first: ColumnElement[int], last: ColumnElement[int]) -> None:
        c, touching = metric_chunks.c, (*_IN_SERIES, last >= bindparam("low"), first <= bindparam("high"))
        self.counts = Statement(select(c.count).where(*touching))
        self.data = Statement(select(c.data).where(*touching).order_by(c.id))
        self.summaries = Statement(select(c.id, c.count, first, last, c.summary).where(*touching).order_by(c.id))


_BY = {
    STEP: _Touching(metric_chunks.c.first_step, metric_chunks.c.last_step),
    TIME: _Touching(metric_chunks.c.first_time, metric_chunks.c.last_time),
}


@dataclass(frozen=True)
class _Series:
    id: int
    server: int
    rank: int
    external_writer: int
    attempt: int
    writer: str
    segment: int
    wall_offset_ns: int
    count: int
    kinds: int
    numbered: int
    first_time: int
    last_time: int
    tail: bytes | None

    @property
    def source(self) -> tuple[bool, int]:
        return self.external_writer != 0, self.attempt

    @property
    def span(self) -> tuple[int, int]:
        """The first and last time on the clock by which its source is ordered: see `merge`."""
        offset = self.wall_offset_ns if self.external_writer else 0
        return self.first_time + offset, self.last_time + offset

    @property
    def place(self) -> tuple[int, int, str, int]:
        return self.external_writer, self.attempt, self.writer, self.segment

    @property
    def ids(self) -> dict[str, int]:
        return {"first": self.id * CHUNKS_PER_SERIES, "end": (self.id + 1) * CHUNKS_PER_SERIES}


def read_series(session: Session, run_id: str, metric: str, *, column: str, rank: int | None) -> Series:
    """Return all points of a series. See RunStore.read_series. Loads numpy."""
    columns, kind = _columns(session, run_id, metric, column)
    if kind == TABLE and column != ROWS:
        return _read_column(session, metric, columns, column, rank)
    rows = _of_rank(_all_series(session, columns[clean(column)]), metric, rank)
    pieces = [_read_piece(session, row) for row in rows]
    return merge(pieces, metric=metric, column=column, rank=_rank_of(rows))


def read_history(session: Session, run_id: str, metric: str, offset: int, limit: int | None) -> History:
    """Return a window of a metric's numbers in MLflow's order. See RunStore.read_history. Loads numpy.

    Chunks whose times do not touch the window's are not read.
    """
    columns, _kind = _columns(session, run_id, metric, "")
    rows = _of_rank(_all_series(session, columns[""]), metric, None)
    is_renumbered = len(rows) > 1 and all(row.numbered for row in rows)
    if is_renumbered or any(row.kinds & CODES[JSON] for row in rows):
        found = history_of(read_series(session, run_id, metric, column="", rank=None))
        return found.chosen(slice(offset, None if limit is None else offset + limit))
    return window([block for row in rows for block in _blocks(session, row)], offset, limit)


def _blocks(session: Session, row: _Series) -> Iterator[Block]:
    for id, count, first, last in session.all(_SPANS, **row.ids):
        yield _block(first, last, count, row, partial(_read_chunk, session, id))
    if row.tail is not None:
        tail = arrivals.unpack(row.tail)
        yield _block(int(tail.times.min()), int(tail.times.max()), len(tail), row, lambda: tail)


def _block(first: int, last: int, count: int, row: _Series, read: Callable[[], Columns]) -> Block:
    first_ms, last_ms = ((at + row.wall_offset_ns) // MS for at in (first, last))
    return Block(first_ms, last_ms, count, lambda: history_of_columns(read(), row.wall_offset_ns))


def _read_chunk(session: Session, id: int) -> Columns:
    (data,) = session.one(_ONE_DATA, row=id)
    return decode(data)


def open_values(session: Session, run_id: str, metric: str, *, column: str, rank: int | None) -> Series | ValueParts:
    """Return the values in parts when they are numbers that were logged one segment after the other; else merged."""
    columns, kind = _columns(session, run_id, metric, column)
    if kind != TABLE:
        rows = _of_rank(_all_series(session, columns[clean(column)]), metric, rank)
        ordered = _in_order(rows)
        joined = reduce(or_, (row.kinds for row in rows))
        if join_codes(joined) != JSON and _rank_of(rows) != ALL_RANKS and not _overlap(ordered):
            parts = (part for row in ordered for part in _iter_values(session, row, join_codes(joined)))
            return ValueParts(ordered[0].rank, join_codes(joined), sum(row.count for row in ordered), parts)
    return read_series(session, run_id, metric, column=column, rank=rank)


def _iter_values(session: Session, row: _Series, kind: str) -> Iterator[Any]:
    left = row.count
    for chunk in _decoded(session, row):
        values: Any = np.asarray(convert(chunk.values, chunk.kind, kind), dtype=kind if kind == F8 else "i8")[:left]
        left -= len(values)
        yield values
    if left:
        raise DamagedBytes(f"of {row.count} points of a metric {row.count - left} are there")


def _in_order(rows: Sequence[_Series]) -> list[_Series]:
    """Return series as they follow each other in time, attempt by attempt. See `_overlap`."""
    return sorted(rows, key=lambda row: (*row.source, row.span[0], *row.place))


def chart(
    session: Session,
    run_id: str,
    metric: str,
    *,
    column: str,
    rank: int | None,
    width: int,
    window: Window,
) -> Chart:
    """Return a chart, from summaries where they are fine enough. See RunStore.chart. Loads numpy."""
    columns, _kind = _columns(session, run_id, metric, column)
    rows = _of_rank(_all_series(session, columns[clean(column)]), metric, rank)
    if any(row.kinds & CODES[JSON] for row in rows):
        raise not_numeric(metric)
    ordered = _in_order(rows)
    if _overlap(ordered):
        # Writers that logged at the same time are few points or a curiosity; their order needs every point.
        whole = read_series(session, run_id, metric, column=column, rank=rank)
        return chart_of_series(whole, window, width=width)
    width = max(1, min(width, MAX_WIDTH))
    renumber = len(ordered) > 1 and all(row.numbered for row in ordered)
    return to_chart(_range(session, ordered, window, width, renumber=renumber), width)


def _columns(session: Session, run_id: str, metric: str, column: str) -> tuple[dict[str, int], str]:
    """Return the ids of a metric's columns, and its kind."""
    rows = session.all(_METRIC, row=get_serial(session, run_id), metric=clean(metric))
    if not rows:
        raise NotFound(
            f"Run `{run_id}` has no metric `{metric}`.", hint=f"List its metrics with `runyard runs show {run_id}`."
        )
    kind = rows[0][2]
    if kind == ARTIFACT:
        raise InvalidArgument(
            f"Metric `{metric}` of run `{run_id}` is a file, not a series.",
            hint="Download the file that the metric names.",
        )
    ids = {row[0]: row[1] for row in rows}
    if clean(column) not in ids:
        names = ", ".join(repr(name) for name in ids if name != ROWS) or "none"
        raise NotFound(f"Metric `{metric}` of run `{run_id}` has no column {column!r}.", hint=f"Its columns: {names}.")
    return ids, kind


def _all_series(session: Session, metric_id: int) -> list[_Series]:
    return [_Series(*row) for row in session.all(_SERIES, metric=metric_id)]


def _of_rank(rows: Sequence[_Series], metric: str, rank: int | None) -> list[_Series]:
    """Return the series of one rank, the lowest where none is named, or of all; workers come before servers."""
    of_rank = [row for row in rows if rank in (None, ALL_RANKS, row.rank)]
    if not of_rank:
        ranks = ", ".join(str(number) for number in sorted({row.rank for row in rows}))
        raise NotFound(f"Rank {rank} logged nothing under `{metric}`.", hint=f"Ranks that did: {ranks or 'none'}.")
    if rank == ALL_RANKS:
        return of_rank
    lowest = of_rank[0]
    return [row for row in of_rank if (row.server, row.rank) == (lowest.server, lowest.rank)]


def _read_column(session: Session, metric: str, columns: dict[str, int], column: str, rank: int | None) -> Series:
    rows = _of_rank(_all_series(session, columns[ROWS]), metric, rank)
    cells = {(row.rank, row.place): row for row in _all_series(session, columns[clean(column)])}
    pieces = []
    for row in rows:
        own = cells.get((row.rank, row.place))
        pieces.append(fill(None if own is None else _read_piece(session, own), _read_piece(session, row)))
    return merge(pieces, metric=metric, column=column, rank=_rank_of(rows))


def _rank_of(rows: Sequence[_Series]) -> int:
    """Return the rank of the series, ALL_RANKS where there are several."""
    first = rows[0]
    return first.rank if all((row.server, row.rank) == (first.server, first.rank) for row in rows) else ALL_RANKS


def _read_piece(session: Session, row: _Series) -> Piece:
    columns = _read_columns(session, row)
    return Piece(*row.place, row.wall_offset_ns, bool(row.numbered), columns)


def _read_columns(session: Session, row: _Series) -> Columns:
    kind = join_codes(row.kinds)
    chunks = _decoded(session, row)
    if kind == JSON:
        return concatenate(list(chunks))
    values: Any = np.empty(row.count, dtype=kind if kind == F8 else "i8")
    steps, times = np.empty(row.count, dtype=np.int64), np.empty(row.count, dtype=np.int64)
    at = 0
    for chunk in chunks:
        end = at + len(chunk)
        if end > row.count:
            break
        values[at:end] = convert(chunk.values, chunk.kind, kind)
        steps[at:end], times[at:end] = chunk.steps, chunk.times
        at = end
    if at != row.count:
        raise DamagedBytes(f"of {row.count} points of a metric {at} are there")
    return Columns(kind, values, steps, times)


def _decoded(session: Session, row: _Series) -> Iterator[Columns]:
    text = _DATA.text(session.dialect)
    session.cursor.execute(text.sql, text.arguments(row.ids))
    while batch := session.cursor.fetchmany(64):
        for (data,) in batch:
            yield decode(data)
    if row.tail is not None:
        yield arrivals.unpack(row.tail)


def _overlap(ordered: Sequence[_Series]) -> bool:
    pairs = zip(ordered, ordered[1:])
    return any(before.source == after.source and before.span[1] >= after.span[0] for before, after in pairs)


def _range(session: Session, ordered: Sequence[_Series], window: Window, width: int, *, renumber: bool) -> Blocks:
    """Return blocks of all points in the window: single points when they are few, else summaries."""
    parts = []
    before = 0
    for row in ordered:
        parts.append(_Part(session, row, window, before if renumber else 0))
        before += row.count
    points = sum(part.count_points() for part in parts)
    close = points <= width * BLOCK_POINTS
    blocks = [block for part in parts for block in (part.points() if close else part.summaries())]
    return charts.join_blocks(blocks) if blocks else charts.no_blocks()


class _Part:
    """The part of one stored series in a window. `shift` is added to its steps, because others come before it."""

    def __init__(self, session: Session, row: _Series, window: Window, shift: int) -> None:
        self._session = session
        self._row = row
        self._shift = shift
        self._window = window.before(steps=shift, times=row.wall_offset_ns)
        self._asked = _BY[window.x]
        self._values = {**row.ids, "low": self._window.low, "high": self._window.high}

    def count_points(self) -> int:
        tail = 0 if self._row.tail is None else BLOCK_POINTS
        return tail + sum(int(row[0]) for row in self._session.all(self._asked.counts, **self._values))

    def points(self) -> Iterator[Blocks]:
        """Yield every point in the window, reading only the chunks that touch it."""
        for (data,) in self._session.all(self._asked.data, **self._values):
            yield self._placed(charts.of_points(self._window.cut(decode(data))))
        if self._row.tail is not None:
            yield self._placed(charts.of_points(self._window.cut(arrivals.unpack(self._row.tail))))

    def summaries(self) -> Iterator[Blocks]:
        """Yield summaries of chunks that lie in the window as a whole, and of those points of the others that do."""
        whole: list[Any] = []
        low, high = self._window.low, self._window.high
        for id, count, first, last, summary in self._session.all(self._asked.summaries, **self._values):
            if low <= first and last <= high:
                whole.append((summary, count))
                continue
            yield from self._from_rows(whole)
            whole = []
            (data,) = self._session.one(_ONE_DATA, row=id)
            yield from self._summed_up(decode(data))
        yield from self._from_rows(whole)
        if self._row.tail is not None:
            yield from self._summed_up(arrivals.unpack(self._row.tail))

    def _from_rows(self, rows: Sequence[Any]) -> Iterator[Blocks]:
        if rows:
            yield self._placed(charts.from_bytes([row[0] for row in rows], [row[1] for row in rows]))

    def _summed_up(self, columns: Columns) -> Iterator[Blocks]:
        inside = self._window.cut(columns)
        if len(inside):
            yield self._placed(charts.sum_up(inside))

    def _placed(self, found: Blocks) -> Blocks:
        return found.moved(steps=self._shift, times=self._row.wall_offset_ns)
