"""What SQLite's own failures become, and how the file is opened."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from runyard.core.errors import StoreUnavailable
from runyard.core.records import RunChange
from runyard.store.sqlite import SqliteStore, explain
from runyard.testing.runs import Journal, a_run, points

SOURCE = Path(__file__).parents[2] / "src"

FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from runyard.core.errors import StoreUnavailable
from runyard.store.sqlite import SqliteStore
from runyard.testing.runs import Journal, a_run, points

store = SqliteStore(Path(sys.argv[1]))
a_run(store, "r")
journal = Journal(store, "r")
journal.ship(points("m", [1.0, 2.0]))
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
stored, refused = 2, 0
while not refused:
    part = journal.part(points("m", np.random.default_rng(stored).normal(size=5000)))
    try:
        store.ingest("r", 1, [part])
        stored += 5000
    except StoreUnavailable as error:
        assert sys.argv[1] in error.what and error.hint, error
        refused += 1
assert len(store.read_series("r", "m").values) == stored
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.ingest("r", 1, [part])
assert len(store.read_series("r", "m").values) == stored + 5000
store.close()
print("stored", stored)
"""


FULL_AT_FIRST = """
import resource, sys
from pathlib import Path
from runyard.core.errors import StoreUnavailable
from runyard.store.sqlite import SqliteStore

for limit in range(0, 600_000, 19_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        SqliteStore(Path(sys.argv[1])).close()
        print("opened at", limit)
        break
    except StoreUnavailable as error:
        assert sys.argv[1] in error.what and error.hint, error
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store = SqliteStore(Path(sys.argv[1]))
store.set_value("a", "b")
store.close()
"""


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


VALUES = np.random.default_rng(0).normal(size=12 * 4096 + 100)  # whole chunks and a tail


def filled(path: Path) -> None:
    store = SqliteStore(path)
    a_run(store, "r")
    Journal(store, "r").ship(points("m", VALUES))
    store.close()


def use_all(path: Path) -> None:
    store = SqliteStore(path)
    try:
        store.get_run("r")
        store.list_metrics("r")
        store.read_series("r", "m")
        store.chart("r", "m")
        store.update_run("r", RunChange(tags_set={"a": "b"}))
    finally:
        store.close()


def test_a_full_disk_refuses_and_loses_nothing_and_heals(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    done = run_python(FULL_DISK, str(path))

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 2
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_disk_too_full_for_an_empty_database_is_told_and_heals(tmp_path: Path) -> None:
    done = run_python(FULL_AT_FIRST, str(tmp_path / "runyard.db"))

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[2]) > 0


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    path.write_bytes(b"these are my holiday notes\n" * 400)

    with pytest.raises(StoreUnavailable) as caught:
        SqliteStore(path)
    assert str(path) in caught.value.what
    assert "not a SQLite database" in caught.value.why
    assert "RUNYARD_HOME" in caught.value.hint
    assert path.read_bytes().startswith(b"these are my holiday notes")


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()

    with pytest.raises(StoreUnavailable, match="recipes"):
        SqliteStore(path)


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_truncated_database_is_refused_by_name(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "runyard.db"
    filled(path)
    size = path.stat().st_size
    os.truncate(path, int(size * keep) // 4096 * 4096)

    with pytest.raises(StoreUnavailable) as caught:
        use_all(path)
    assert str(path) in str(caught.value) and "damaged" in caught.value.why
    assert caught.value.hint


def test_flipped_bytes_never_give_wrong_points(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    filled(path)
    whole = path.read_bytes()
    refused = 0
    for at in range(4096 * 8 + 500, len(whole), len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            store = SqliteStore(path)
        except StoreUnavailable as error:
            refused += 1
            assert "damaged" in error.why
            continue
        try:
            assert np.array_equal(store.read_series("r", "m").values, VALUES)
        except StoreUnavailable as error:
            refused += 1
            assert "damaged" in error.why
        finally:
            store.close()

    assert refused > 10


def test_a_zero_filled_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    filled(path)
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(bytes(path.stat().st_size - 4096 * 2))

    with pytest.raises(StoreUnavailable, match=r"runyard\.db"):
        use_all(path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreUnavailable, match="file"):
        SqliteStore(tmp_path / "file" / "runyard.db")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("database or disk is full", "full"),
        ("disk I/O error", "df -h"),
        ("database disk image is malformed", "damaged"),
        ("file is not a database", "not a SQLite database"),
        ("database is locked", "locked"),
        ("attempt to write a readonly database", "permissions"),
        ("unable to open database file", "permissions"),
    ],
)
def test_each_failure_says_why_and_what_next(text: str, word: str) -> None:
    error = explain(sqlite3.OperationalError(text), Path("/data/runyard.db"))

    assert error is not None
    assert "/data/runyard.db" in error.what
    assert word in error.why + error.hint
    assert error.hint


def test_mistakes_of_ours_are_not_dressed_up() -> None:
    assert explain(sqlite3.OperationalError("no such column: x"), Path("x")) is None
    assert explain(sqlite3.IntegrityError("UNIQUE constraint failed: files is locked"), Path("x")) is None
    assert explain(ValueError("disk is full"), Path("x")) is None


def test_the_file_is_opened_to_survive_power_loss(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runyard.db")
    with store._database.reading() as session:
        pragmas = {}
        for name in ("journal_mode", "synchronous", "foreign_keys", "mmap_size"):
            session.cursor.execute(f"PRAGMA {name}")
            pragmas[name] = (session.cursor.fetchone() or (0,))[0]
    store.close()

    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "mmap_size": 0}


def test_what_was_stored_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    filled(path)
    store = SqliteStore(path)

    assert np.array_equal(store.read_series("r", "m").values, VALUES)
    store.close()


def test_an_idle_store_loads_neither_numpy_nor_zstandard_nor_alembic(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from runyard.store import open_store
from runyard.store.base import RunQuery
from runyard.testing.runs import a_run
for _ in range(2):
    store = open_store(Path(sys.argv[1]))
    a_run(store, "r", tags={"a": "b"})
    store.list_runs(RunQuery("default", tags={"a": "b"}))
    store.list_metrics("r")
    store.close()
print(sorted(name for name in ("numpy", "zstandard", "alembic", "mako") if name in sys.modules))
"""
    done = run_python(code, str(tmp_path / "runyard.db"))

    assert done.stdout.strip() == "[]", done.stdout + done.stderr
