"""The first schema.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "packs",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_packs"),
        sa.UniqueConstraint("name", name="uq_packs_name"),
    )
    op.create_table(
        "server_values",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_server_values"),
    )
    op.create_table(
        "snapshots",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_snapshots"),
    )
    op.create_table(
        "workspaces",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workspaces"),
        sa.UniqueConstraint("name", name="uq_workspaces_name"),
    )
    op.create_table(
        "content_chunks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("pack_id", ID, nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.Column("plain", sa.BigInteger(), nullable=False),
        sa.Column("codec", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["pack_id"], ["packs.id"], name="fk_content_chunks_pack_id"),
        sa.PrimaryKeyConstraint("id", name="pk_content_chunks"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "experiments",
        sa.Column("id", ID, nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("archived", sa.Integer(), nullable=False),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_experiments_workspace_id"),
        sa.PrimaryKeyConstraint("id", name="pk_experiments"),
        sa.UniqueConstraint("workspace_id", "name", name="uq_experiments_workspace_id_name"),
    )
    op.create_table(
        "runs",
        sa.Column("serial", ID, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("experiment_id", ID, nullable=False),
        sa.Column("parent_serial", ID, nullable=True),
        sa.Column("child", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("finished", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"], name="fk_runs_experiment_id"),
        sa.ForeignKeyConstraint(["parent_serial"], ["runs.serial"], name="fk_runs_parent_serial"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_runs_workspace_id"),
        sa.PrimaryKeyConstraint("serial", name="pk_runs"),
        sa.UniqueConstraint("id", name="uq_runs_id"),
        sa.UniqueConstraint("key", name="uq_runs_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_runs_experiment_id_child_serial", "runs", ["experiment_id", "child", "serial"], unique=False)
    op.create_index("ix_runs_experiment_id_serial", "runs", ["experiment_id", "serial"], unique=False)
    op.create_index("ix_runs_finished_serial", "runs", ["finished", "serial"], unique=False)
    op.create_index("ix_runs_parent_serial_serial", "runs", ["parent_serial", "serial"], unique=False)
    op.create_index("ix_runs_workspace_id_child_serial", "runs", ["workspace_id", "child", "serial"], unique=False)
    op.create_index("ix_runs_workspace_id_serial", "runs", ["workspace_id", "serial"], unique=False)
    op.create_index("ix_runs_workspace_id_status_serial", "runs", ["workspace_id", "status", "serial"], unique=False)
    op.create_table(
        "files",
        sa.Column("run_serial", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_files_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_serial", "name", name="pk_files"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "quarantine",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_serial", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("segment", sa.Integer(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_quarantine_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_quarantine"),
    )
    op.create_index("ix_quarantine_run_serial", "quarantine", ["run_serial"], unique=False)
    op.create_table(
        "run_labels",
        sa.Column("run_serial", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_run_labels_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_serial", "kind", "key", name="pk_run_labels"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_run_labels_kind_key_value_run_serial", "run_labels", ["kind", "key", "value", "run_serial"], unique=False
    )
    op.create_table(
        "run_metrics",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_serial", ID, nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("experiment_id", ID, nullable=False),
        sa.Column("child", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("column", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("server", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.Float(), nullable=True),
        sa.Column("minimum", sa.Float(), nullable=True),
        sa.Column("maximum", sa.Float(), nullable=True),
        sa.Column("last_value", sa.Text(), nullable=True),
        sa.Column("last_attempt", sa.Integer(), nullable=False),
        sa.Column("last_time", sa.BigInteger(), nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_run_metrics_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_run_metrics"),
        sa.UniqueConstraint("run_serial", "name", "column", name="uq_run_metrics_run_serial_name_column"),
    )
    op.create_index(
        "ix_run_metrics_last",
        "run_metrics",
        ["workspace_id", "name", "column", "last", "run_serial", "child", "experiment_id"],
        unique=False,
    )
    op.create_table(
        "segments",
        sa.Column("run_serial", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("segment", sa.Integer(), nullable=False),
        sa.Column("mark", sa.BigInteger(), nullable=False),
        sa.Column("names", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_segments_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_serial", "attempt", "writer", "segment", name="pk_segments"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tokens",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("run_serial", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_serial"], ["runs.serial"], name="fk_tokens_run_serial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_hash", name="pk_tokens"),
    )
    op.create_index("ix_tokens_run_serial", "tokens", ["run_serial"], unique=False)
    op.create_table(
        "series",
        sa.Column("id", ID, nullable=False),
        sa.Column("metric_id", ID, nullable=False),
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
        sa.Column("tail", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["metric_id"], ["run_metrics.id"], name="fk_series_metric_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
        sa.UniqueConstraint(
            "metric_id", "rank", "attempt", "writer", "segment", name="uq_series_metric_id_rank_attempt_writer_segment"
        ),
    )
    op.create_table(
        "metric_chunks",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("first_time", sa.BigInteger(), nullable=False),
        sa.Column("last_time", sa.BigInteger(), nullable=False),
        sa.Column("minimum", sa.Float(), nullable=True),
        sa.Column("maximum", sa.Float(), nullable=True),
        sa.Column("last", sa.Float(), nullable=True),
        sa.Column("sum", sa.Float(), nullable=True),
        sa.Column("summary", sa.LargeBinary(), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_metric_chunks"),
    )
