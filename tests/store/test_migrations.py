from __future__ import annotations

import math
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
from runyard.testing.runs import Journal, a_run, points
from tests.store.old_database import FIRST, check_external_writers, make_database_of_0008

SOURCE = Path(__file__).parents[2] / "src"


def tables(path: Path) -> dict[str, list[str]]:
    """Return each table's and index's definition, its parts in no order."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: sorted(part.strip() for part in re.split(r",|\n", sql) if part.strip()) for name, sql in rows}


def test_migrations_end_in_the_schema_that_a_new_database_gets(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "new.db").close()
    make_at(tmp_path / "old.db", REVISION)
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


def test_the_latest_number_of_an_older_databases_metrics_is_read_from_their_points(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    store = SqliteStore(path)
    for run_id in ("r", "s"):
        a_run(store, run_id)
    many = list(range(10_000))
    Journal(store, "r", wall_offset_ns=8_000_000).ship(
        points("reversed", many, steps=many[::-1]),
        points("no steps", [3.0, 1.0]),
        points("zeros", [4.0, 6.0, 5.0], steps=[0, 0, 0], times=[9_000_000, 9_000_001, 1]),
        points("text", ["a", 2.0, "b", 1.0], kind="json", steps=[9, 3, 8, 2]),
        points("nan", [5.0, math.nan], steps=[1, 2]),
        points("word", ["a"], kind="json"),
    )
    Journal(store, "s").ship(points("reversed", [7.0, 8.0], steps=[3, 1]))
    Journal(store, "s", attempt=2).ship(points("reversed", [9.0], steps=[2]))
    Journal(store, "s", rank=1).ship(points("reversed", [9.0], steps=[9]))
    experiment_id = store.get_experiment("default", "e").id
    store.close()
    state = "SELECT name, latest, latest_step, latest_ms FROM run_metrics ORDER BY id"
    with sqlite3.connect(path) as connection:
        before = connection.execute(state).fetchall()
    connection.close()
    take_back_to(path, "0009")
    SqliteStore(path).close()

    connection = sqlite3.connect(path)
    assert connection.execute(state).fetchall() == before
    assert before == [
        ("reversed", 0.0, 9999, 8),
        ("no steps", 1.0, 1, 8),
        ("zeros", 6.0, 0, 17),
        ("text", 2.0, 3, 8),
        ("nan", None, 2, 8),
        ("word", None, None, None),
        ("reversed", 7.0, 3, 0),
    ]
    assert connection.execute("SELECT public_id FROM experiments").fetchall() == [(experiment_id,)]
    connection.close()


def take_back_to(path: Path, revision: str) -> None:
    """Make of a new database what a program of that revision would have left."""
    old = path.with_suffix(".old")
    make_at(old, revision)
    connection = sqlite3.connect(old)
    connection.execute("ATTACH ? AS new", [str(path)])
    wanted = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('alembic_version', 'sqlite_sequence')"
    )
    for (table,) in connection.execute(wanted).fetchall():
        columns = ", ".join(f'"{row[1]}"' for row in connection.execute(f"PRAGMA main.table_info({table})"))
        connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    connection.commit()
    connection.close()
    old.replace(path)


def make_at(path: Path, revision: str) -> None:
    """Make an empty database of that revision."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        migrations.upgrade(connection, revision)
        connection.commit()
    engine.dispose()


def test_external_writers_and_origins_of_an_older_database_become_fields(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        make_database_of_0008(connection)
        connection.commit()
    engine.dispose()
    store = SqliteStore(path)

    check_external_writers(store)
    store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT attempt, external_writer FROM quarantine").fetchall() == [(0, FIRST)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
