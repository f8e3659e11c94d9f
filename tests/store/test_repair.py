"""`runyard server repair`: every whole row of a damaged database is saved, and the rest is counted."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine

from runyard.core.errors import StoreUnavailable
from runyard.core.records import RunChange, RunFile
from runyard.core.statuses import RunStatus
from runyard.store.base import RunQuery
from runyard.store.repair.repair import repair
from runyard.store.repair.salvage import salvage
from runyard.store.sqlite import SqliteStore
from runyard.testing.runs import Journal, a_run, points
from tests.store.old_database import make_database_of_0008

RUNS = 60
PAGE = 4096
VALUES = np.random.default_rng(0).normal(size=3 * 4096 + 50)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "runyard.db"
    store = SqliteStore(path)
    for number in range(RUNS):
        run_id = f"run_{number}"
        a_run(store, run_id, tags={"n": str(number), "text": "x" * 300})
        store.put_file(run_id, RunFile(name="outputs/m", size=3, chunks=[f"{number:064x}"]))
        Journal(store, run_id).ship(points("loss", VALUES if number == 7 else [float(number)] * 5))
        store.set_status(run_id, RunStatus.CANCELED)
    store.add_chunks("packs/a", {f"{number:03x}" + "0" * 61: (number, 1, 1, "raw") for number in range(2000)})
    store.set_value("server_id", "abc")
    store.close()
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, whole: bytes) -> Path:
    found = tmp_path / "runyard.db"
    found.write_bytes(whole)
    return found


def test_a_file_that_an_older_program_left_is_repaired_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        make_database_of_0008(connection)
        connection.exec_driver_sql("DELETE FROM segments WHERE writer = 'r3-9-bbbbbbbb'")
        connection.commit()
    engine.dispose()

    assert salvage(path, tmp_path / "new.db").is_sound
    saved = sqlite3.connect(tmp_path / "new.db")
    writers = [row[0] for row in saved.execute("SELECT writer FROM series ORDER BY writer")]
    saved.close()
    assert writers == ["r0-11-cccccccc", "r0-11-dddddddd", "r2-5-aaaaaaaa"]  # the other one is shipped again


def root_of(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    try:
        row = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        return int(row[0])
    finally:
        connection.close()


def is_sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        whole = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return whole and connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        connection.close()


def ruin(path: Path, page: int, data: bytes = b"\xa5" * PAGE) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(data)


def readable(path: Path) -> dict[str, bool]:
    """Return the runs that are there, and whether all of each can be read."""
    store = SqliteStore(path)
    try:
        found = {}
        for run in store.list_runs(RunQuery("default", limit=1000, view="all")).runs:
            number = int(run.id.partition("_")[2])
            assert run.tags["n"] == str(number)
            metrics = {info.name for info in store.list_metrics(run.id)}
            if "loss" in metrics:
                values = store.read_series(run.id, "loss").values
                assert set(np.asarray(values)) <= set(VALUES if number == 7 else [float(number)])
                store.chart(run.id, "loss")
            found[run.id] = bool(metrics) and len(store.list_files(run.id)) == 1
            store.update_run(run.id, RunChange(tags_set={"after": "repair"}))
        a_run(store, "new_1")
        return found
    finally:
        store.close()


def test_a_sound_database_stays_as_it_is(path: Path, whole: bytes) -> None:
    found = repair(path)

    assert found.damaged_file is None and path.read_bytes() == whole
    assert [one.name for one in path.parent.iterdir()] == ["runyard.db"]
    assert {table.name: table.saved for table in found.salvage.tables}["runs"] == RUNS


@pytest.mark.external
def test_whatever_page_is_ruined_the_rest_is_saved(path: Path, whole: bytes) -> None:
    complete = []
    for page in range(2, len(whole) // PAGE, 27):
        path.write_bytes(whole)
        ruin(path, page)
        try:
            found = repair(path)
        except StoreUnavailable:  # the page said where all tables are
            assert path.read_bytes()[PAGE:] != whole[PAGE:]
            complete.append(0)
            continue

        assert is_sound(path), page
        assert (found.damaged_file is None) == found.salvage.is_sound
        complete.append(sum(readable(path).values()))
        for left in path.parent.glob("runyard.db*"):
            left.unlink()

    # A page that leads to all rows of a table costs all of them; nearly all pages hold a few rows.
    assert sum(count >= RUNS - 25 for count in complete) >= 0.8 * len(complete), complete


def test_points_that_are_lost_are_counted_and_the_others_stay(path: Path) -> None:
    ruin(path, root_of(path, "ix_run_metrics_last"))
    connection = sqlite3.connect(path)
    id = connection.execute("SELECT max(id) - 1 FROM metric_chunks").fetchone()[0]
    connection.execute("UPDATE metric_chunks SET data = x'00' WHERE id = ?", (id,))
    connection.commit()
    connection.close()
    found = repair(path)
    lost = {table.name: table.lost for table in found.salvage.tables if table.lost}

    assert lost == {"metric_chunks": 1} and is_sound(path)
    store = SqliteStore(path)
    values = np.asarray(store.read_series("run_7", "loss").values)
    assert np.array_equal(values, np.concatenate([VALUES[:4096], VALUES[2 * 4096 :]]))
    assert store.list_metrics("run_7")[0].count == len(values)
    store.close()


def test_runs_stay_when_their_experiments_and_workspaces_are_lost(path: Path) -> None:
    for table in ("experiments", "workspaces"):
        ruin(path, root_of(path, table))
    found = repair(path)

    assert readable(path) == {f"run_{number}": True for number in range(RUNS)}
    assert {table.name for table in found.salvage.tables if table.lost != 0} == {"experiments", "workspaces"}
    store = SqliteStore(path)
    assert [one.name for one in store.list_workspaces()] == ["default"]
    assert store.get_run("new_1").number == RUNS + 1
    store.close()


def test_a_header_that_is_gone_is_written_anew(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(100))
    with pytest.raises(StoreUnavailable):
        SqliteStore(path)
    repair(path)

    assert readable(path) == {f"run_{number}": True for number in range(RUNS)}


@pytest.mark.parametrize("keep", [0.4, 0.7, 0.9])
def test_a_database_that_was_cut_gives_what_is_left(path: Path, whole: bytes, keep: float) -> None:
    os.truncate(path, int(len(whole) * keep) // PAGE * PAGE)
    found = repair(path)

    assert found.damaged_file is not None and found.damaged_file.stat().st_size < len(whole)
    assert is_sound(path) and any(table.lost != 0 for table in found.salvage.tables)


def test_what_only_the_journal_holds_is_saved_too(path: Path, whole: bytes) -> None:
    code = (
        "import os, sys; from pathlib import Path; from runyard.store.sqlite import SqliteStore;"
        "SqliteStore(Path(sys.argv[1])).set_value('late', 'in the journal'); os._exit(0)"
    )
    page = root_of(path, "run_labels")
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    ruin(path, page)
    found = repair(path)
    store = SqliteStore(path)

    assert store.find_value("late") == "in the journal"
    store.close()
    assert found.damaged_file is not None
    assert Path(f"{found.damaged_file}-wal").stat().st_size > 0


def test_a_file_that_never_was_a_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    path.write_bytes(b"holiday notes\n" * 1000)

    with pytest.raises(StoreUnavailable, match="Nothing can be read"):
        repair(path)
    assert path.read_bytes().startswith(b"holiday notes")
    assert [one.name for one in tmp_path.iterdir()] == ["runyard.db"]
