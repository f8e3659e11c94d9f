"""Columns that filters search: a run's name, target and time of creation, and labels that are numbers.

Revision ID: 0003
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from runyard.core.formats.filters import find_number
from runyard.store.migrations.filling import fill_runs
from runyard.store.text import indexed, to_microseconds

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

IS_NUMBER = sa.text("number IS NOT NULL")


def upgrade() -> None:
    op.add_column("runs", sa.Column("name", sa.Text()))
    op.add_column("runs", sa.Column("target", sa.Text()))
    op.add_column("runs", sa.Column("created_us", sa.BigInteger()))
    op.add_column("run_labels", sa.Column("number", sa.Float()))
    fill_runs(op.get_bind(), ("name", "target", "created_us"), _searched)
    _fill_labels(op.get_bind())
    for column in ("name", "target", "created_us"):
        op.create_index(f"ix_runs_workspace_id_{column}_serial", "runs", ["workspace_id", column, "serial"])
    op.create_index(
        "ix_run_labels_kind_key_number_run_serial",
        "run_labels",
        ["kind", "key", "number", "run_serial"],
        sqlite_where=IS_NUMBER,
        postgresql_where=IS_NUMBER,
    )


def _searched(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": indexed(run.get("display_name") or ""),
        "target": indexed((run.get("spec") or {}).get("target") or "local"),
        "created_us": to_microseconds(datetime.fromisoformat(run["created_at"])),
    }


def _fill_labels(connection: sa.Connection) -> None:
    labels = sa.table("run_labels", *map(sa.column, ("run_serial", "kind", "key", "value", "number")))
    row = (labels.c.run_serial, labels.c.kind, labels.c.key)
    found = [(key, find_number(value)) for *key, value in connection.execute(sa.select(*row, labels.c.value))]
    for key, number in found:
        if number is not None:
            same = [column == part for column, part in zip(row, key, strict=True)]
            connection.execute(sa.update(labels).where(*same).values(number=number))
