"""Runs that are archived, and runs and experiments that are deleted and can still come back.

Revision ID: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

IS_DELETED = sa.text("purge_us IS NOT NULL")
PAGES = (("workspace_id",), ("workspace_id", "child"), ("experiment_id",), ("experiment_id", "child"))


def upgrade() -> None:
    op.add_column("experiments", sa.Column("purge_us", sa.BigInteger()))
    op.add_column("runs", sa.Column("archived", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.add_column("runs", sa.Column("purge_us", sa.BigInteger()))
    for first in PAGES:
        before, now = [*first, "serial"], [*first, "serial", "archived", "purge_us"]
        op.drop_index(f"ix_runs_{'_'.join(before)}", "runs")
        op.create_index(f"ix_runs_{'_'.join(now)}", "runs", now)
    op.create_index("ix_runs_purge_us", "runs", ["purge_us"], sqlite_where=IS_DELETED, postgresql_where=IS_DELETED)
