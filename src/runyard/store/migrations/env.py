"""Alembic's entry: run on the connection that `migrations.upgrade` hands over, in its transaction."""

from __future__ import annotations

from alembic import context

from runyard.store.sql.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
