"""Group commit: many callers, one flush; nothing acknowledged is lost, nothing refused is kept."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, StoreUnavailable
from runyard.store.sql.database import Session
from runyard.store.sqlite import SqliteDatabase, SqliteStore
from runyard.testing.runs import Journal, a_new_run, a_run, a_workspace, points
from tests.waiting import wait_for

ACKNOWLEDGING = """
import sys, threading
from pathlib import Path
from runyard.store.sqlite import SqliteStore
from runyard.testing.runs import Journal, a_new_run, a_workspace, points

store = SqliteStore(Path(sys.argv[1]))
store.put_workspace(a_workspace())
lock = threading.Lock()

def work(name):
    store.create_run(a_new_run(name))
    journal = Journal(store, name)
    for index in range(10**9):
        journal.ship(points("m", [index], kind="i8"))
        with lock:
            print(name, index + 1, flush=True)

for name in ("a", "b", "c"):
    threading.Thread(target=work, args=(name,)).start()
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    found = SqliteDatabase(tmp_path / "runyard.db")
    yield found
    found.close()


def put(session: Session, key: str) -> None:
    session.cursor.execute("INSERT INTO server_values VALUES (?, ?)", (key, "x"))


def keys(database: SqliteDatabase) -> list[str]:
    with database.reading() as session:
        session.cursor.execute("SELECT key FROM server_values ORDER BY key")
        return [row[0] for row in session.cursor.fetchall()]


class Held:
    """Threads whose writes wait behind one that this test holds open."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._go, self._inside = threading.Event(), threading.Event()
        self.results: dict[str, object] = {}
        self._threads: list[threading.Thread] = []
        self.add("holder", self._hold)
        assert self._inside.wait(10)

    def add(self, name: str, job: object) -> None:
        thread = threading.Thread(target=self._call, args=(name, job))
        thread.start()
        self._threads.append(thread)

    def release(self, waiting: int) -> None:
        wait_for(lambda: self._database.writer._jobs.qsize() >= waiting)
        self._go.set()
        for thread in self._threads:
            thread.join(30)

    def _hold(self, session: Session) -> None:
        self._inside.set()
        assert self._go.wait(30)

    def _call(self, name: str, job: object) -> None:
        try:
            self.results[name] = self._database.write(job)  # type: ignore[arg-type]  # a job
        except Exception as error:
            self.results[name] = error


def test_many_callers_share_one_commit(database: SqliteDatabase) -> None:
    held = Held(database)
    before = database.writer.commits
    for index in range(50):
        held.add(str(index), lambda session, index=index: put(session, f"{index:02}"))
    held.release(waiting=50)

    assert len(keys(database)) == 50
    assert database.writer.commits - before <= 2


def test_a_caller_that_is_alone_writes_itself_and_one_of_a_crowd_does_not(database: SqliteDatabase) -> None:
    def name(session: Session) -> str:
        return threading.current_thread().name

    assert database.write(name) == threading.current_thread().name
    held = Held(database)
    for index in range(3):
        held.add(str(index), name)
    held.release(waiting=3)

    assert len({held.results[str(index)] for index in range(3)}) == 1
    assert database.write(name) == "store-writer"  # the others may still be there
    assert database.write(name) == threading.current_thread().name


def test_a_refused_write_undoes_only_itself(database: SqliteDatabase) -> None:
    def half(session: Session) -> None:
        put(session, "half")
        raise Conflict("no")

    held = Held(database)
    held.add("one", lambda session: put(session, "one"))
    held.add("half", half)
    held.add("two", lambda session: put(session, "two"))
    held.release(waiting=3)

    assert keys(database) == ["one", "two"]
    assert isinstance(held.results["half"], Conflict)
    assert held.results["one"] is held.results["two"] is None


def test_a_mistake_of_ours_reaches_its_caller_alone(database: SqliteDatabase) -> None:
    def wrong(session: Session) -> None:
        session.cursor.execute("SELECT * FROM no_such_table")

    held = Held(database)
    held.add("wrong", wrong)
    held.add("right", lambda session: put(session, "right"))
    held.release(waiting=2)

    assert "no_such_table" in str(held.results["wrong"])
    assert keys(database) == ["right"]


def test_a_commit_that_fails_fails_every_caller_and_the_next_one_works(database: SqliteDatabase) -> None:
    def end_it(session: Session) -> None:
        put(session, "lost")
        # As SQLite itself does on a full disk: the transaction is gone while the job runs.
        session.cursor.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    held = Held(database)
    held.add("before", lambda session: put(session, "before"))
    held.add("end", end_it)
    held.release(waiting=2)

    assert all(isinstance(held.results[name], StoreUnavailable) for name in ("before", "end"))
    assert held.results["before"] is not held.results["end"]
    assert keys(database) == []
    database.write(lambda session: put(session, "after"))
    assert keys(database) == ["after"]


def test_after_closing_a_write_is_refused_in_words(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runyard.db")
    store.close()
    store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        store.set_value("a", "b")


def test_threads_that_ship_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runyard.db")
    store.put_workspace(a_workspace())

    def ship(name: str) -> None:
        store.create_run(a_new_run(name))
        journal = Journal(store, name)
        for index in range(60):
            part = journal.part(points("m", [index, index + 0.5]), tags_set={"last": str(index)})
            for _ in range(2):
                store.ingest(name, 1, [part])
            assert store.list_marks(name, 1)[0].offset == journal.offset

    threads = [threading.Thread(target=ship, args=(f"r{index}",)) for index in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for index in range(12):
        values = store.read_series(f"r{index}", "m").values
        assert list(values) == [value for number in range(60) for value in (number, number + 0.5)]
        assert store.get_run(f"r{index}").tags == {"last": "59"}
    store.close()


@pytest.mark.long
def test_readers_see_whole_transactions_while_a_writer_works(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runyard.db")
    a_run(store, "r")
    stop = threading.Event()
    wrong: list[tuple[int, int]] = []

    def read() -> None:
        while not stop.is_set():
            (info,) = store.list_metrics("r") or [None]
            found = len(store.read_series("r", "m").values) if info else 0
            again = len(store.chart("r", "m", width=10_000).count) if info else 0
            if info and not info.count <= found <= again:
                wrong.append((info.count, found))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    journal = Journal(store, "r")
    for _ in range(150):
        journal.ship(points("m", range(37)))
    stop.set()
    for thread in readers:
        thread.join()

    assert wrong == []
    assert len(store.read_series("r", "m").values) == 150 * 37
    store.close()


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "runyard.db"
    process = subprocess.Popen(
        [sys.executable, "-c", ACKNOWLEDGING, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(400)]
    process.kill()
    lines += process.communicate()[0].splitlines(keepends=True)
    acknowledged = {name: int(count) for name, count in (line.split() for line in lines if line.endswith("\n"))}

    store = SqliteStore(path)
    for name, count in acknowledged.items():
        values = list(store.read_series(name, "m").values)
        assert values == list(range(len(values)))
        assert len(values) >= count
        assert store.list_marks(name, 1)[0].offset == len(values) * 32
    store.close()
