from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from runyard.core.errors import StoreUnavailable
from runyard.core.formats.filters import parse_filter
from runyard.core.statuses import RunStatus
from runyard.store import migrations
from runyard.store.base import RunQuery
from runyard.store.sql import writes
from runyard.store.sql.schema import KNOWN_REVISIONS, REVISION, metadata
from runyard.store.sqlite import SqliteStore
from runyard.testing.runs import a_run

SOURCE = Path(__file__).parents[2] / "src"


def tables(path: Path) -> dict[str, list[str]]:
    """Return each table's and index's definition, its parts in no order."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: sorted(part.strip() for part in re.split(r",|\n", sql) if part.strip()) for name, sql in rows}


def test_migrations_end_in_the_schema_that_a_new_database_gets(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "new.db").close()
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        migrations.upgrade(connection, REVISION)
        connection.commit()
    engine.dispose()
    new, old = tables(tmp_path / "new.db"), tables(tmp_path / "old.db")
    del new["alembic_version"], old["alembic_version"]

    assert old == new
    assert set(metadata.tables) <= set(new)


def test_every_migration_is_known_and_the_last_is_the_schemas() -> None:
    files = sorted((SOURCE / "runyard/store/migrations/versions").glob("v*.py"))
    found = [re.search(r'^revision = "(.*)"', path.read_text(), re.MULTILINE)[1] for path in files]  # type: ignore[index]  # or fail

    assert tuple(found) == KNOWN_REVISIONS
    assert found[-1] == REVISION


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.close()
    before = tables(path)

    with pytest.raises(StoreUnavailable) as caught:
        SqliteStore(path)
    assert str(path) in caught.value.what and "newer" in caught.value.what
    assert "0999" in caught.value.why and REVISION in caught.value.why
    assert "upgrade" in caught.value.hint.lower()
    assert tables(path) == before


def test_an_older_database_is_brought_up_to_date_by_alembic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runyard.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    connection.commit()
    connection.close()
    # An older schema than the first does not exist yet, so an empty one stands for it.
    monkeypatch.setattr(writes, "_find_revision", old_then_new(writes._find_revision))
    monkeypatch.setattr(writes, "KNOWN_REVISIONS", ("none", *KNOWN_REVISIONS))
    store = SqliteStore(path)
    a_run(store, "r")

    assert store.get_run("r").id == "r"
    store.close()
    assert "runs" in tables(path)


def old_then_new(find: object) -> object:
    return lambda connection: find(connection) or "none"  # type: ignore[operator]  # the function it replaces


@pytest.mark.external
def test_ten_processes_that_start_at_once_make_one_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runyard.db"
    code = (
        "import sys; from pathlib import Path; from runyard.store.sqlite import SqliteStore;"
        "from runyard.testing.runs import a_run;"
        "sys.stdin.readline(); store = SqliteStore(Path(sys.argv[1])); a_run(store, sys.argv[2]); store.close()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), f"r{index}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        for index in range(10)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]

    assert ends == [("", 0)] * 10
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(REVISION,)]
    assert connection.execute("SELECT count(*), max(serial) FROM runs").fetchone() == (10, 10)
    connection.close()


def test_runs_of_an_older_database_are_found_by_what_filters_search_now(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    store = SqliteStore(path)
    a_run(store, "small", display_name="first", parameters={"lr": "1e-3"})
    a_run(store, "big", display_name="second", parameters={"lr": "10"}, submitted_by="eve", status=RunStatus.RUNNING)
    store.close()
    take_back_to(path, "0002")
    store = SqliteStore(path)

    def found(text: str) -> list[str]:
        return [run.id for run in store.list_runs(RunQuery("default", where=parse_filter(text))).runs]

    assert found("params.lr < 0.5") == ["small"] and found("params.lr >= 10") == ["big"]
    assert found("user = eve and number = 2 and duration < 1h") == ["big"] and found("not duration") == ["small"]
    assert found("name = second") == ["big"] and found("target = local") == ["big", "small"]
    assert found("created > 2000-01-01") == ["big", "small"] and found("created < 2000-01-01") == []
    store.close()


def take_back_to(path: Path, revision: str) -> None:
    """Make of a new database what a program of that revision would have left."""
    connection = sqlite3.connect(path)
    for table in ("run_events", "user_tokens", "users"):
        connection.execute(f"DROP TABLE {table}")
    for first in ("workspace_id", "workspace_id_child", "experiment_id", "experiment_id_child"):
        columns = first.replace("_id_child", "_id, child")
        connection.execute(f"DROP INDEX ix_runs_{first}_serial_archived_purge_us")
        connection.execute(f"CREATE INDEX ix_runs_{first}_serial ON runs ({columns}, serial)")
    connection.execute("DROP INDEX ix_runs_purge_us")
    for column in ("archived", "purge_us", "owner"):
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    connection.execute("ALTER TABLE experiments DROP COLUMN purge_us")
    connection.execute("DROP INDEX ix_run_labels_kind_key_number_run_serial")
    connection.execute("DROP INDEX ix_runs_workspace_id_type_serial")
    connection.execute("DROP INDEX ix_runs_workspace_id_started_us_ended_us_serial")
    for column in ("number", "submitted_by"):
        connection.execute(f"DROP INDEX ix_runs_workspace_id_{column}_serial")
    for column in ("number", "submitted_by", "started_us", "ended_us"):
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    for column in ("name", "target", "created_us"):
        connection.execute(f"DROP INDEX ix_runs_workspace_id_{column}_serial")
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    connection.execute("ALTER TABLE run_labels DROP COLUMN number")
    connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
    connection.commit()
    connection.close()
