"""Columns that the table of runs sorts and groups by: number, type, who submitted it, when it started and ended.

Revision ID: 0006
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from runyard.store.migrations.filling import fill_runs
from runyard.store.text import indexed, to_microseconds

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

COLUMNS = ("type", "number", "submitted_by", "started_us", "ended_us")


def upgrade() -> None:
    op.add_column("runs", sa.Column("number", sa.BigInteger()))
    op.add_column("runs", sa.Column("submitted_by", sa.Text()))
    op.add_column("runs", sa.Column("started_us", sa.BigInteger()))
    op.add_column("runs", sa.Column("ended_us", sa.BigInteger()))
    fill_runs(op.get_bind(), COLUMNS, _searched)
    for column in ("type", "number", "submitted_by"):
        op.create_index(f"ix_runs_workspace_id_{column}_serial", "runs", ["workspace_id", column, "serial"])
    op.create_index(
        "ix_runs_workspace_id_started_us_ended_us_serial", "runs", ["workspace_id", "started_us", "ended_us", "serial"]
    )


def _searched(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": None if run.get("type") is None else indexed(run["type"]),
        "number": run["number"],
        "submitted_by": indexed(run.get("submitted_by") or ""),
        "started_us": _microseconds(run.get("started_at")),
        "ended_us": _microseconds(run.get("ended_at")),
    }


def _microseconds(at: str | None) -> int | None:
    return None if at is None else to_microseconds(datetime.fromisoformat(at))
