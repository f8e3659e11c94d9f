"""Assets: what a workspace keeps by name, in versions.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "assets",
        sa.Column("id", ID, nullable=False),
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_assets_workspace_id"),
        sa.PrimaryKeyConstraint("id", name="pk_assets"),
        sa.UniqueConstraint("workspace_id", "kind", "name", name="uq_assets_workspace_id_kind_name"),
    )
    op.create_table(
        "asset_versions",
        sa.Column("asset_id", ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["assets.id"], name="fk_asset_versions_asset_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("asset_id", "version", name="pk_asset_versions"),
        sqlite_with_rowid=False,
    )
