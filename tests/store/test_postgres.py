"""What only PostgreSQL can show: migrations there, failures in words, passwords that stay hidden."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import NullPool

from runyard.core.errors import StoreUnavailable
from runyard.store import migrations, open_store
from runyard.store.sql.schema import REVISION, SEGMENT_KEY, metadata
from runyard.testing.runs import a_run
from tests.store.old_database import check_external_writers, make_database_of_0008
from tests.store.postgres import new_schema

pytestmark = pytest.mark.external


def test_migrations_make_the_tables_that_a_new_database_gets(postgres: str) -> None:
    url = new_schema(postgres)
    with create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool).connect() as connection:
        migrations.upgrade(connection, REVISION)
        connection.commit()
        found = {name: {column["name"] for column in inspect(connection).get_columns(name)} for name in metadata.tables}
    store = open_store(url)
    a_run(store, "r")
    store.close()

    assert found == {name: {column.name for column in table.columns} for name, table in metadata.tables.items()}


def test_external_writers_and_origins_of_an_older_database_become_fields(postgres: str) -> None:
    url = new_schema(postgres)
    with create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool).connect() as connection:
        make_database_of_0008(connection)
        connection.commit()
    store = open_store(url)

    check_external_writers(store)
    store.close()
    with create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool).connect() as connection:
        found = inspect(connection)
        keys = found.get_pk_constraint("segments")["constrained_columns"]
        unique = [one["column_names"] for one in found.get_unique_constraints("series")]
    assert keys == list(SEGMENT_KEY)
    assert unique == [["metric_id", "rank", "external_writer", "attempt", "writer", "segment"]]


def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        open_store(f"postgresql://me:hush@/nowhere?host={tmp_path}")

    assert "cannot be reached" in caught.value.why and "hush" not in str(caught.value)


def test_a_connection_that_the_server_ends_is_made_again(postgres: str) -> None:
    store = open_store(new_schema(postgres))
    a_run(store, "first")
    other = open_store(new_schema(postgres))
    with psycopg.connect(postgres) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'runyard'")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        a_run(store, "second")
    a_run(store, "third")

    assert {run.id for run in store.list_unfinished()} == {"first", "third"}
    store.close()
    other.close()
