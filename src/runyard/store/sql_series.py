"""Reading points: whole series, and charts from the summaries beside the chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import bindparam, select

from runyard.core.errors import InvalidArgument, NotFound
from runyard.store import blocks, tails
from runyard.store.arrivals import ARTIFACT, ROWS, TABLE
from runyard.store.base import Chart, Series
from runyard.store.blocks import BLOCK_POINTS, Blocks
from runyard.store.charts import MAX_WIDTH, chart_of_series, not_numeric, to_chart, within
from runyard.store.chunks import Columns, concatenate, decode
from runyard.store.damage import Damaged
from runyard.store.database import Session
from runyard.store.kinds import CODES, F8, JSON, convert, join_codes
from runyard.store.merging import Piece, fill, merge
from runyard.store.schema import CHUNKS_PER_SERIES, metric_chunks, run_metrics, series
from runyard.store.sql_rows import get_serial
from runyard.store.statements import Statement
from runyard.store.text import clean

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
    .order_by(series.c.server, series.c.rank, series.c.attempt, series.c.writer, series.c.segment)
)
_IN_SERIES = (metric_chunks.c.id >= bindparam("first"), metric_chunks.c.id < bindparam("end"))
_DATA = Statement(select(metric_chunks.c.data).where(*_IN_SERIES).order_by(metric_chunks.c.id))
_RANGE = (metric_chunks.c.last_step >= bindparam("from_step"), metric_chunks.c.first_step <= bindparam("to_step"))
_SUMMARIES = Statement(
    select(
        metric_chunks.c.id,
        metric_chunks.c.count,
        metric_chunks.c.first_step,
        metric_chunks.c.last_step,
        metric_chunks.c.summary,
    )
    .where(*_IN_SERIES, *_RANGE)
    .order_by(metric_chunks.c.id)
)
_DATA_IN_RANGE = Statement(
    select(metric_chunks.c.id, metric_chunks.c.data).where(*_IN_SERIES, *_RANGE).order_by(metric_chunks.c.id)
)
_ONE_DATA = Statement(select(metric_chunks.c.data).where(metric_chunks.c.id == bindparam("row")))
_POINTS_IN_RANGE = Statement(select(metric_chunks.c.count).where(*_IN_SERIES, *_RANGE))
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class _Series:
    id: int
    server: int
    rank: int
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
    def place(self) -> tuple[int, str, int]:
        return self.attempt, self.writer, self.segment

    @property
    def ids(self) -> dict[str, int]:
        return {"first": self.id * CHUNKS_PER_SERIES, "end": (self.id + 1) * CHUNKS_PER_SERIES}


def read_series(session: Session, run_id: str, metric: str, *, column: str, rank: int | None) -> Series:
    columns, kind = _columns(session, run_id, metric, column)
    if kind == TABLE and column != ROWS:
        return _read_column(session, metric, columns, column, rank)
    found = _of_rank(_all_series(session, columns[clean(column)]), metric, rank)
    pieces = [_read_piece(session, row) for row in found]
    return merge(pieces, metric=metric, column=column, rank=found[0].rank)


def chart(
    session: Session,
    run_id: str,
    metric: str,
    *,
    column: str,
    rank: int | None,
    width: int,
    first_step: int | None,
    last_step: int | None,
) -> Chart:
    columns, _kind = _columns(session, run_id, metric, column)
    found = _of_rank(_all_series(session, columns[clean(column)]), metric, rank)
    if any(row.kinds & CODES[JSON] for row in found):
        raise not_numeric(metric)
    ordered = sorted(found, key=lambda row: (row.attempt, row.first_time, row.writer, row.segment))
    if _overlap(ordered):
        # Writers that logged at the same time are few points or a curiosity; their order needs every point.
        whole = read_series(session, run_id, metric, column=column, rank=rank)
        return chart_of_series(whole, width=width, first_step=first_step, last_step=last_step)
    width = max(1, min(width, MAX_WIDTH))
    renumber = len(ordered) > 1 and all(row.numbered for row in ordered)
    return to_chart(_range(session, ordered, renumber, width, first_step, last_step), width)


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
    found = {row[0]: row[1] for row in rows}
    if clean(column) not in found:
        known = ", ".join(repr(name) for name in found if name != ROWS) or "none"
        raise NotFound(f"Metric `{metric}` of run `{run_id}` has no column {column!r}.", hint=f"Its columns: {known}.")
    return found, kind


def _all_series(session: Session, metric_id: int) -> list[_Series]:
    return [_Series(*row) for row in session.all(_SERIES, metric=metric_id)]


def _of_rank(rows: Sequence[_Series], metric: str, rank: int | None) -> list[_Series]:
    """Return the series of one rank, the lowest where none is named; workers come before servers."""
    wanted = [row for row in rows if rank in (None, row.rank)]
    if not wanted:
        ranks = ", ".join(str(found) for found in sorted({row.rank for row in rows}))
        raise NotFound(f"Rank {rank} logged nothing under `{metric}`.", hint=f"Ranks that did: {ranks or 'none'}.")
    lowest = wanted[0]
    return [row for row in wanted if (row.server, row.rank) == (lowest.server, lowest.rank)]


def _read_column(session: Session, metric: str, columns: dict[str, int], column: str, rank: int | None) -> Series:
    rows = _of_rank(_all_series(session, columns[ROWS]), metric, rank)
    lowest = (rows[0].server, rows[0].rank)
    cells = {row.place: row for row in _all_series(session, columns[clean(column)]) if (row.server, row.rank) == lowest}
    pieces = []
    for row in rows:
        own = cells.get(row.place)
        pieces.append(fill(None if own is None else _read_piece(session, own), _read_piece(session, row)))
    return merge(pieces, metric=metric, column=column, rank=rows[0].rank)


def _read_piece(session: Session, row: _Series) -> Piece:
    columns = _read_columns(session, row)
    return Piece(row.attempt, row.writer, row.segment, row.wall_offset_ns, bool(row.numbered), columns)


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
        raise Damaged(f"of {row.count} points of a metric {at} are there")
    return Columns(kind, values, steps, times)


def _decoded(session: Session, row: _Series) -> Iterator[Columns]:
    text = _DATA.text(session.dialect)
    session.cursor.execute(text.sql, text.arguments(row.ids))
    while batch := session.cursor.fetchmany(64):
        for (data,) in batch:
            yield decode(data)
    if row.tail is not None:
        yield tails.unpack(row.tail)


def _overlap(ordered: Sequence[_Series]) -> bool:
    pairs = zip(ordered, ordered[1:])
    return any(before.attempt == after.attempt and before.last_time >= after.first_time for before, after in pairs)


def _range(
    session: Session,
    ordered: Sequence[_Series],
    renumber: bool,
    width: int,
    first_step: int | None,
    last_step: int | None,
) -> Blocks:
    """Return blocks of all points in the range: single points when they are few, else summaries."""
    parts = []
    before = 0
    for row in ordered:
        shift = before if renumber else 0
        window = _Window(session, row, shift, first_step, last_step)
        parts.append(window)
        before += row.count
    points = sum(window.count_points() for window in parts)
    close = points <= width * BLOCK_POINTS
    found = [block for window in parts for block in (window.points() if close else window.summaries())]
    return blocks.join_blocks(found) if found else blocks.no_blocks()


class _Window:
    """A range of steps of one stored series. `shift` is added to its steps, because others come before it."""

    def __init__(
        self, session: Session, row: _Series, shift: int, first_step: int | None, last_step: int | None
    ) -> None:
        self._session = session
        self._row = row
        self._shift = shift
        low = _INT64_MIN if first_step is None else max(_INT64_MIN, min(_INT64_MAX, first_step - shift))
        high = _INT64_MAX if last_step is None else max(_INT64_MIN, min(_INT64_MAX, last_step - shift))
        self._low, self._high = low, high
        self._values = {**row.ids, "from_step": low, "to_step": high}

    def count_points(self) -> int:
        tail = 0 if self._row.tail is None else BLOCK_POINTS
        return tail + sum(int(row[0]) for row in self._session.all(_POINTS_IN_RANGE, **self._values))

    def points(self) -> Iterator[Blocks]:
        """Yield every point in the range, reading only the chunks that touch it."""
        for _id, data in self._session.all(_DATA_IN_RANGE, **self._values):
            yield self._cut(blocks.of_points(decode(data)))
        yield from self._tail()

    def summaries(self) -> Iterator[Blocks]:
        """Yield summaries of chunks that lie in the range as a whole, and the points of those on its edge."""
        rows = self._session.all(_SUMMARIES, **self._values)
        whole: list[Any] = []
        for row in rows:
            if self._low <= row[2] and row[3] <= self._high:
                whole.append(row)
                continue
            if whole:
                yield self._from_rows(whole)
                whole = []
            (data,) = self._session.one(_ONE_DATA, row=row[0])
            yield self._cut(blocks.of_points(decode(data)))
        if whole:
            yield self._from_rows(whole)
        yield from self._tail()

    def _from_rows(self, rows: Sequence[Any]) -> Blocks:
        return self._placed(blocks.from_bytes([row[4] for row in rows], [row[1] for row in rows]))

    def _tail(self) -> Iterator[Blocks]:
        if self._row.tail is not None:
            yield self._cut(blocks.of_points(tails.unpack(self._row.tail)))

    def _cut(self, found: Blocks) -> Blocks:
        return self._placed(within(found, self._low, self._high))

    def _placed(self, found: Blocks) -> Blocks:
        return found.moved(steps=self._shift, times=self._row.wall_offset_ns)
