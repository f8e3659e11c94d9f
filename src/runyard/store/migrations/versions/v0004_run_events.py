"""The journals of sweeps.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "run_events",
        sa.Column("run_serial", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_run_events_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_serial", "number", name="pk_run_events"),
        sqlite_with_rowid=False,
    )
