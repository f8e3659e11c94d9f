"""External writers have a column, not attempt numbers from 2**20 on; so has a segment's origin, not the name id -1.

Revision ID: 0009
"""

from __future__ import annotations

import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op

from runyard.store.migrations.filling import BATCH
from runyard.store.text import dump, load

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

FIRST_EXTERNAL_WRITER = 1 << 20
ORIGIN = "-1"  # the name id under which a segment kept [rank, role, wall_offset_ns] as JSON
RANK_OF_WRITER = re.compile(r"r(\d{1,6})-")
OLD_KEY = ("run_serial", "attempt", "writer", "segment")
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    for table in ("tokens", "segments", "quarantine", "series"):
        op.add_column(table, _zero("external_writer"))
    op.add_column("run_metrics", _zero("last_external_writer"))
    op.add_column("segments", _zero("rank"))
    op.add_column("segments", sa.Column("role", sa.Text(), nullable=False, server_default=sa.text("'worker'")))
    op.add_column("segments", _zero("wall_offset_ns", sa.BigInteger()))
    _fill_origins(op.get_bind())
    if op.get_bind().dialect.name == "sqlite":
        _make_again_in_sqlite()
    else:
        _change_keys()
    for table in ("tokens", "segments", "quarantine", "series"):
        op.execute(
            f"UPDATE {table} SET external_writer = attempt, attempt = 0 WHERE attempt >= {FIRST_EXTERNAL_WRITER}"
        )
    op.execute(
        "UPDATE run_metrics SET last_external_writer = last_attempt, last_attempt = 0 "
        f"WHERE last_attempt >= {FIRST_EXTERNAL_WRITER}"
    )
    # The times of external writers are compared by the wall clock.
    op.execute(
        "UPDATE run_metrics SET last_time = COALESCE((SELECT max(s.last_time + s.wall_offset_ns) FROM series s WHERE "
        "s.metric_id = run_metrics.id AND s.rank = run_metrics.rank AND "
        "s.external_writer = run_metrics.last_external_writer), last_time) WHERE last_external_writer != 0"
    )


def _zero(name: str, kind: sa.types.TypeEngine[int] | None = None) -> sa.Column[int]:
    return sa.Column(name, kind or sa.Integer(), nullable=False, server_default=sa.text("0"))


def _fill_origins(connection: sa.Connection) -> None:
    segments = sa.table("segments", *map(sa.column, (*OLD_KEY, "names", "rank", "role", "wall_offset_ns")))
    key = [segments.c[name] for name in OLD_KEY]
    rows = sa.select(*key, segments.c.names).order_by(*key).limit(BATCH)
    wanted = rows
    while found := list(connection.execute(wanted)):
        for *place, text in found:
            same = [column == part for column, part in zip(key, place, strict=True)]
            connection.execute(sa.update(segments).where(*same).values(_with_origin(place[2], load(text))))
        wanted = rows.where(sa.tuple_(*key) > sa.tuple_(*map(sa.literal, found[-1][:4])))


def _with_origin(writer: str, names: dict[str, str]) -> dict[str, Any]:
    """Return the columns of a segment; the writer's id tells the rank where no HEADER was stored."""
    said = RANK_OF_WRITER.match(writer)
    origin = [int(said[1]) if said else 0, "worker", 0]
    if ORIGIN in names:
        origin = json.loads(names.pop(ORIGIN))
    return {"names": dump(names), **dict(zip(("rank", "role", "wall_offset_ns"), origin, strict=True))}


def _change_keys() -> None:
    op.drop_constraint("pk_segments", "segments", type_="primary")
    op.create_primary_key("pk_segments", "segments", ["run_serial", "external_writer", "attempt", "writer", "segment"])
    op.drop_constraint("uq_series_metric_id_rank_attempt_writer_segment", "series", type_="unique")
    op.create_unique_constraint(
        "uq_series_metric_id_rank_external_writer_attempt_writer_segment",
        "series",
        ["metric_id", "rank", "external_writer", "attempt", "writer", "segment"],
    )


def _make_again_in_sqlite() -> None:
    """SQLite changes no key of a table: a new table takes the rows."""
    for name in ("segments", "series"):
        op.rename_table(name, f"old_{name}")
    segments = op.create_table(
        "segments",
        sa.Column("run_serial", Id, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("segment", sa.Integer(), nullable=False),
        sa.Column("mark", sa.BigInteger(), nullable=False),
        sa.Column("names", sa.Text(), nullable=False),
        _zero("external_writer"),
        _zero("rank"),
        sa.Column("role", sa.Text(), nullable=False, server_default=sa.text("'worker'")),
        _zero("wall_offset_ns", sa.BigInteger()),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_segments_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_serial", "external_writer", "attempt", "writer", "segment", name="pk_segments"),
        sqlite_with_rowid=False,
    )
    series = op.create_table(
        "series",
        sa.Column("id", Id, nullable=False),
        sa.Column("metric_id", Id, nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("server", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("segment", sa.Integer(), nullable=False),
        sa.Column("wall_offset_ns", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("kinds", sa.Integer(), nullable=False),
        sa.Column("numbered", sa.Integer(), nullable=False),
        sa.Column("first_time", sa.BigInteger(), nullable=False),
        sa.Column("last_time", sa.BigInteger(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("open_count", sa.Integer(), nullable=False),
        sa.Column("tail", sa.LargeBinary()),
        _zero("external_writer"),
        sa.ForeignKeyConstraint(["metric_id"], ["run_metrics.id"], name="fk_series_metric_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
        sa.UniqueConstraint(
            "metric_id",
            "rank",
            "external_writer",
            "attempt",
            "writer",
            "segment",
            name="uq_series_metric_id_rank_external_writer_attempt_writer_segment",
        ),
    )
    for table in (segments, series):
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        op.execute(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM old_{table.name}")
        op.drop_table(f"old_{table.name}")
