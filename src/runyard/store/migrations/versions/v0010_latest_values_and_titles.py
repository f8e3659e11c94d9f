"""The latest number of a metric, which is the one with the highest step; ids and titles of experiments as columns.

Revision ID: 0010
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from runyard.store.migrations.filling import BATCH
from runyard.store.text import load

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

CHUNKS_PER_SERIES = 1 << 24
MS = 1_000_000  # ns


def upgrade() -> None:
    op.add_column("run_metrics", sa.Column("latest", sa.Float()))
    op.add_column("run_metrics", sa.Column("latest_step", sa.BigInteger()))
    op.add_column("run_metrics", sa.Column("latest_ms", sa.BigInteger()))
    op.add_column("experiments", sa.Column("public_id", sa.Text()))
    op.add_column("experiments", sa.Column("title", sa.Text()))
    _fill_latest(op.get_bind())
    _fill_ids(op.get_bind())
    columns = ["workspace_id", "name", "column", "latest", "run_serial"]
    op.create_index("ix_run_metrics_latest", "run_metrics", columns)
    op.create_index("ix_experiments_public_id", "experiments", ["public_id"], unique=True)
    op.create_index("ix_experiments_title", "experiments", ["workspace_id", "title"], unique=True)


def _fill_ids(connection: sa.Connection) -> None:
    experiments = sa.table("experiments", *map(sa.column, ("id", "document", "public_id")))
    for row, document in list(connection.execute(sa.select(experiments.c.id, experiments.c.document))):
        same = sa.update(experiments).where(experiments.c.id == row)
        connection.execute(same.values(public_id=load(document)["id"]))


def _fill_latest(connection: sa.Connection) -> None:
    """Points without steps were logged in their order; of others, those with the highest step are read."""
    names = ("id", "count", "kind", "server", "rank", "last", "last_value", "latest", "latest_step", "latest_ms")
    metrics = sa.table("run_metrics", *map(sa.column, names))
    wanted = (
        sa.select(*(metrics.c[name] for name in ("id", "count", "server", "rank", "last", "last_value")))
        .where(metrics.c.kind == "scalar")
        .order_by(metrics.c.id)
        .limit(BATCH)
    )
    after = -1
    while found := list(connection.execute(wanted.where(metrics.c.id > after))):
        for row in found:
            latest = _latest(connection, row)
            if latest is not None:
                value, step, ms = latest
                values = {"latest": value if value == value else None, "latest_step": step, "latest_ms": ms}
                connection.execute(sa.update(metrics).where(metrics.c.id == row.id).values(values))
        after = found[-1].id


def _latest(connection: sa.Connection, metric: Any) -> tuple[float, int, int] | None:
    """Return the latest number of a metric's lowest rank with its step and time."""
    columns = ("id", "metric_id", "server", "rank", "wall_offset_ns", "numbered", "kinds", "last_time", "tail")
    series = sa.table("series", *map(sa.column, columns))
    place = (("metric_id", metric.id), ("server", metric.server), ("rank", metric.rank))
    rows = list(connection.execute(sa.select(series).where(*(series.c[name] == value for name, value in place))))
    if rows and all(row.numbered for row in rows):
        last = float("nan") if metric.last_value == "NaN" else metric.last
        ms = max((row.last_time + row.wall_offset_ns) // MS for row in rows)
        return None if last is None else (last, metric.count - 1, ms)
    found = [point for row in rows for point in _points_of_highest_steps(connection, row)]
    return max(found, key=lambda point: (point[1], point[2], point[0] == point[0], point[0]), default=None)


def _points_of_highest_steps(connection: sa.Connection, row: Any) -> list[tuple[float, int, int]]:
    from runyard.store.metrics.arrivals import unpack  # loads numpy
    from runyard.store.metrics.chunks import as_number, decode, to_python

    chunks = sa.table("metric_chunks", *map(sa.column, ("id", "last_step", "data")))
    inside = (chunks.c.id >= row.id * CHUNKS_PER_SERIES, chunks.c.id < (row.id + 1) * CHUNKS_PER_SERIES)
    highest = sa.select(sa.func.max(chunks.c.last_step)).where(*inside).scalar_subquery()
    wanted = sa.select(chunks.c.data).where(*inside)
    if not row.kinds & 8:  # of texts among numbers, the highest step may be a text's
        wanted = wanted.where(chunks.c.last_step == highest)
    pieces = [decode(data) for (data,) in connection.execute(wanted)]
    if row.tail is not None:
        pieces.append(unpack(row.tail))
    points = [
        (float("nan") if value != value else as_number(value), step, (time + row.wall_offset_ns) // MS)
        for piece in pieces
        for value, step, time in zip(to_python(piece.values, piece.kind), piece.steps.tolist(), piece.times.tolist())
    ]
    numbers = [(value, step, ms) for value, step, ms in points if value is not None]
    top = max((step for _, step, _ in numbers), default=0)
    return [point for point in numbers if point[1] == top]
