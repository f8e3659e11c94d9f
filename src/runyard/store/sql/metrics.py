"""SqlStore's part for metrics: marks, ingest, series and charts. What touches points loads numpy at its first use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from sqlalchemy import bindparam, select

from runyard.core.names import SYSTEM_METRICS
from runyard.core.records import Mark, MetricInfo, Run, RunChange
from runyard.store.base import (
    STEP,
    Chart,
    History,
    MetricSeries,
    MetricSummary,
    Points,
    SegmentPart,
    SegmentState,
    Series,
    ValueParts,
)
from runyard.store.rules import apply_change
from runyard.store.sql.database import Session, Statement
from runyard.store.sql.rows import SqlPart, get_serial
from runyard.store.sql.schema import SEGMENT_KEY, run_metrics, runs, segments, series
from runyard.store.text import clean, load

_MARKS = Statement(
    select(segments.c.writer, segments.c.segment, segments.c.mark)
    .where(
        segments.c.run_serial == bindparam("row"),
        segments.c.external_writer == bindparam("of_external_writer"),
        segments.c.attempt == bindparam("of_attempt"),
    )
    .order_by(segments.c.writer, segments.c.segment)
)
_SEGMENT = Statement(
    select(segments.c.mark, segments.c.names, segments.c.rank, segments.c.role, segments.c.wall_offset_ns).where(
        *(segments.c[name] == bindparam(f"of_{name}") for name in SEGMENT_KEY)
    )
)
_INFO_COLUMNS = (
    run_metrics.c.id,
    run_metrics.c.name,
    run_metrics.c.column,
    run_metrics.c.kind,
    run_metrics.c.count,
    run_metrics.c.last_value,
    run_metrics.c.minimum,
    run_metrics.c.maximum,
    run_metrics.c.file,
)
_INFOS = Statement(
    select(*_INFO_COLUMNS).where(run_metrics.c.run_serial == bindparam("row")).order_by(run_metrics.c.id)
)
_RANKS = Statement(
    select(series.c.metric_id, series.c.server, series.c.rank)
    .distinct()
    .join_from(run_metrics, series, series.c.metric_id == run_metrics.c.id)
    .where(run_metrics.c.run_serial == bindparam("row"))
    .order_by(series.c.server, series.c.rank)
)

_SUMMARIES = 500  # runs of one statement


class SqlMetricSeries(SqlPart, MetricSeries):
    """Marks, summaries and points. Reading or storing points loads numpy, listing metrics does not."""

    def list_marks(self, run_id: str, attempt: int, *, external_writer: int = 0) -> list[Mark]:
        with self._database.reading() as session:
            serial = get_serial(session, run_id)
            rows = session.all(_MARKS, row=serial, of_attempt=attempt, of_external_writer=external_writer)
        return [Mark(*row) for row in rows]

    def find_segment(
        self, run_id: str, attempt: int, writer: str, segment: int, *, external_writer: int = 0
    ) -> SegmentState | None:
        with self._database.reading() as session:
            key = (get_serial(session, run_id), external_writer, attempt, clean(writer), segment)
            row = session.one(_SEGMENT, **{f"of_{name}": value for name, value in zip(SEGMENT_KEY, key)})
        if row is None:
            return None
        return SegmentState(row[0], {int(key): name for key, name in load(row[1]).items()}, *row[2:])

    def ingest(
        self, run_id: str, attempt: int, parts: Sequence[SegmentPart], *, external_writer: int = 0
    ) -> list[Mark]:
        from runyard.store.sql.ingest import ingest  # loads numpy

        return self._database.write(lambda session: ingest(session, run_id, (external_writer, attempt), parts))

    def log(
        self,
        run_id: str,
        points: Sequence[Points],
        change: RunChange,
        *,
        check: Callable[[Run, bool], None] = lambda run, is_archived: None,
    ) -> Run:
        from runyard.store.sql.ingest import log  # loads numpy

        now = self._clock()

        def apply(run: Run, is_archived: bool) -> Run:
            check(run, is_archived)
            return apply_change(run, change, now=now)

        return self._database.write(lambda session: log(session, run_id, points, apply))

    def list_metrics(self, run_id: str, *, name: str | None = None) -> list[MetricInfo]:
        with self._database.reading() as session:
            serial = get_serial(session, run_id)
            rows = session.all(_INFOS, row=serial)
            ranks: dict[int, list[int]] = {}
            for metric_id, _server, rank in session.all(_RANKS, row=serial):
                ranks.setdefault(metric_id, []).append(rank)
        wanted = None if name is None else clean(name)
        order = {name: index for index, name in enumerate(dict.fromkeys(row[1] for row in rows))}
        rows.sort(key=lambda row: order[row[1]])
        grouped = [list(group) for _, group in groupby(rows, key=lambda row: row[1])]
        return [_info(group, ranks) for group in grouped if wanted in (None, group[0][1])]

    def summarize_metrics(
        self, run_ids: Sequence[str], *, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, MetricSummary]]:
        found: dict[str, dict[str, MetricSummary]] = {}
        with self._database.reading() as session:
            for start in range(0, len(run_ids), _SUMMARIES):
                for row in _summaries(session, run_ids[start : start + _SUMMARIES], names):
                    last = None if row[2] is None else load(row[2])
                    latest = math.nan if row[6] is None and row[7] is not None else row[6]
                    found.setdefault(row[0], {})[row[1]] = MetricSummary(
                        last, row[3], row[4], row[5], latest, row[7], row[8]
                    )
        return found

    def read_series(self, run_id: str, metric: str, *, column: str = "", rank: int | None = None) -> Series:
        from runyard.store.sql.series import read_series  # loads numpy

        with self._database.reading() as session:
            return read_series(session, run_id, metric, column=column, rank=rank)

    def read_history(self, run_id: str, metric: str, *, offset: int = 0, limit: int | None = None) -> History:
        from runyard.store.sql.series import read_history  # loads numpy

        with self._database.reading() as session:
            return read_history(session, run_id, metric, offset, limit)

    @contextmanager
    def read_values(
        self, run_id: str, metric: str, *, column: str = "", rank: int | None = None
    ) -> Iterator[Series | ValueParts]:
        from runyard.store.sql.series import open_values  # loads numpy

        with self._database.reading() as session:
            yield open_values(session, run_id, metric, column=column, rank=rank)

    def chart(
        self,
        run_id: str,
        metric: str,
        *,
        column: str = "",
        rank: int | None = None,
        width: int = 1000,
        x: str = STEP,
        first: int | None = None,
        last: int | None = None,
    ) -> Chart:
        from runyard.store.metrics.charts import Window  # loads numpy, as does this:
        from runyard.store.sql.series import chart

        with self._database.reading() as session:
            return chart(session, run_id, metric, column=column, rank=rank, width=width, window=Window(x, first, last))


def _summaries(session: Session, run_ids: Sequence[str], names: Sequence[str] | None) -> Sequence[Any]:
    m = run_metrics.c
    wanted = ~m.name.startswith(SYSTEM_METRICS, autoescape=True)
    if names is not None:
        wanted = m.name.in_([clean(name) for name in names])
    return session.select(
        select(runs.c.id, m.name, m.last_value, m.minimum, m.maximum, m.count, m.latest, m.latest_step, m.latest_ms)
        .join_from(runs, run_metrics, m.run_serial == runs.c.serial)
        .where(runs.c.id.in_(run_ids), runs.c.purge_us.is_(None), m.column == "", m.kind == "scalar", wanted)
        .order_by(m.id)
    )


def _info(rows: list[Any], ranks: dict[int, list[int]]) -> MetricInfo:
    """Make one metric of the rows of its columns; a table's first row counts its rows."""
    first_id, name, _column, kind, count, last, minimum, maximum, file = rows[0]
    columns = [row[2] for row in rows if kind != "table" or row[2] != ""]
    return MetricInfo(
        name=name,
        kind=kind,
        columns=columns,
        ranks=ranks.get(first_id, []),
        count=count,
        last=None if last is None else load(last),
        minimum=minimum,
        maximum=maximum,
        artifact=file,
    )
