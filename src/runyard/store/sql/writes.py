"""A SQL database whose writes share transactions: what all products have in common about it.

The one writer: many callers' writes share a transaction, and so one flush of the disk.

The schema's revision: made on an empty database, brought up to date on an old one, refused when it is newer.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sqlalchemy import Connection, Engine, inspect

from runyard.core.errors import StoreUnavailable
from runyard.store.sql.database import Database, Session
from runyard.store.sql.schema import KNOWN_REVISIONS, REVISION, metadata

logger = logging.getLogger(__name__)
T = TypeVar("T")

MAX_JOBS = 512  # in one transaction
MAX_WORK_S = 0.05  # after this long a transaction takes no more jobs, so that nobody waits on a long queue


class Transactions(Protocol):
    """What the writer needs of a database. Each call may raise; after `lost` the next `begin` uses a new connection."""

    def begin(self) -> Session:
        """Begin a transaction; connect first where there is no connection."""
        ...

    def save(self, session: Session) -> None:
        """Set the savepoint of one job."""
        ...

    def keep(self, session: Session) -> None:
        """Release the savepoint: the job is part of the transaction."""
        ...

    def undo(self, session: Session) -> bool:
        """Undo to the last `save`; False when the whole transaction is gone."""
        ...

    def commit(self, session: Session) -> None:
        """Commit; when this returns, every job of the transaction is durable."""
        ...

    def lost(self, error: BaseException) -> None:
        """Drop the connection after a transaction failed."""
        ...

    def failure(self, error: BaseException) -> Exception | None:
        """Return what a caller gets for a driver's error, a new one per call; None for all other errors."""
        ...

    def leave(self) -> None:
        """Close the writer's connection. Called last, on the writer's thread."""
        ...


class GroupWriter:
    """Runs jobs, many per transaction, each in a savepoint; one transaction at a time.

    A job that raises undoes only itself. Callers get their result after the COMMIT that holds it, so an answer means
    durable. Jobs that arrive while a commit flushes the disk make up the next transaction. A thread of its own runs
    them; a caller that is alone runs its job itself, because handing it over costs as much as the job.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._jobs: queue.SimpleQueue[_Job[Any]] = queue.SimpleQueue()
        self._turn = threading.Lock()  # its holder uses the connection
        self._is_alone = True  # the last transaction had one job
        self._work = threading.Lock()  # released: there are jobs for the thread, or it is to end
        self._work.acquire()
        self._closed = False
        self._lock = threading.Lock()
        self.commits = 0
        self._thread = threading.Thread(target=self._loop, name="store-writer", daemon=True)
        self._thread.start()

    def write(self, job: Callable[[Session], T]) -> T:
        """Run the job, on this thread or the writer's, and return its result once it is committed."""
        waiting = _Job(job)
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The store is closed.", why="The server is stopping.", hint="Start it again.")
            self._jobs.put(waiting)
        if self._is_alone and self._turn.acquire(blocking=False):
            try:
                self._transaction()
            finally:
                self._turn.release()
        if not self._jobs.empty():  # a job that is queued after this look has a caller that looks after it
            self._wake()
        return waiting.wait()

    def close(self) -> None:
        """Finish what was handed over, then end the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake()
        self._thread.join()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # it was released already
            self._work.release()

    def _loop(self) -> None:
        while True:
            self._work.acquire()
            is_last = self._closed
            with self._turn:
                while not self._jobs.empty():
                    self._transaction()
                if is_last:
                    self._transactions.leave()
                    return

    def _transaction(self) -> None:
        """Run the jobs that are there, up to a limit. The caller has the turn."""
        jobs: list[_Job[Any]] = []
        try:
            jobs.append(self._jobs.get_nowait())
        except queue.Empty:  # another thread ran them
            return
        try:
            session = self._transactions.begin()
            started = time.monotonic()
            self._do(session, jobs[0])
            while len(jobs) < MAX_JOBS and time.monotonic() - started < MAX_WORK_S:
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
                self._do(session, jobs[-1])
            self._transactions.commit(session)
            self.commits += 1
        except BaseException as error:
            self._transactions.lost(error)
            for job in jobs:
                job.fail(self._transactions.failure(error) or error, cause=error)
        self._is_alone = len(jobs) == 1
        for job in jobs:
            job.finish()

    def _do(self, session: Session, job: _Job[Any]) -> None:
        self._transactions.save(session)
        try:
            job.run(session)
        except Exception as error:
            job.fail(error)
            if not self._transactions.undo(session):
                raise
            return
        self._transactions.keep(session)


class _Job(Generic[T]):
    def __init__(self, call: Callable[[Session], T]) -> None:
        self._call = call
        self._result: T
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def run(self, session: Session) -> None:
        self._result = self._call(session)

    def fail(self, error: BaseException, *, cause: BaseException | None = None) -> None:
        # A refusal that the caller was to get anyway is more use to him than the failure of the whole transaction.
        if self._error is None or cause is self._error:
            self._error = error
            if cause is not error:
                self._error.__cause__ = cause

    def finish(self) -> None:
        self._done.release()

    def wait(self) -> T:
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._result


def bring_up_to_date(connection: Connection, place: str, *, lock: Callable[[Connection], None]) -> None:
    """Leave the database at `place` with this program's schema. `lock` begins a transaction that shuts others out.

    Raises:
        StoreUnavailable: the database is newer than this program, or not ours.
    """
    if _find_revision(connection) == REVISION:
        return
    lock(connection)
    try:
        # Another process may have done it while this one waited for the lock.
        revision = _find_revision(connection)
        if revision is None:
            _create(connection, place)
        elif revision != REVISION:
            _upgrade(connection, place, revision)
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        # The driver's own call: a full disk may have ended the transaction, and ROLLBACK would be the error then.
        connection.connection.rollback()
        raise


def _find_revision(connection: Connection) -> str | None:
    # Alembic costs 10 MB and 300 ms; a server that starts on a current schema never loads it.
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else str(row[0])


def _create(connection: Connection, place: str) -> None:
    strangers = inspect(connection).get_table_names()
    if strangers:
        raise StoreUnavailable(
            f"The database `{place}` is not Runyard's.",
            why=f"It holds other tables: {', '.join(sorted(strangers)[:5])}.",
            hint="Set RUNYARD_HOME to another folder.",
        )
    metadata.create_all(connection)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
        "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    connection.exec_driver_sql(f"INSERT INTO alembic_version (version_num) VALUES ('{REVISION}')")


def _upgrade(connection: Connection, place: str, revision: str) -> None:
    if revision not in KNOWN_REVISIONS:
        raise StoreUnavailable(
            f"The database `{place}` was made by a newer Runyard.",
            why=f"Its schema is {revision}; this version knows schemas up to {REVISION}.",
            hint="Upgrade with `pip install --upgrade runyard`, or set RUNYARD_HOME to another folder.",
        )
    from runyard.store.migrations import upgrade  # slow, and only an old database needs it

    upgrade(connection, REVISION)


class GroupedDatabase(Database):
    """One writer with a connection of its own; readers have the engine's others. `place` names it in messages."""

    BEGIN: ClassVar[str]  # starts a transaction that writes

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place
        self._writing: Connection | None = None
        self._versions: Counter[str] = Counter()
        try:
            with self.translated(), engine.connect() as connection:
                bring_up_to_date(connection, place, lock=self.lock_schema)
        except BaseException:
            engine.dispose()
            raise
        self.writer = GroupWriter(self)

    @abstractmethod
    def lock_schema(self, connection: Connection) -> None:
        """Begin a transaction that lets nobody else change the schema."""

    @abstractmethod
    def undo(self, session: Session) -> bool:
        """Undo to the last `save`; False when the whole transaction is gone."""

    def write(self, job: Callable[[Session], T]) -> T:
        with self.translated():
            return self.writer.write(job)

    def close(self) -> None:
        self.writer.close()
        self.engine.dispose()

    def begin(self) -> Session:
        if self._writing is None:
            self._writing = self.engine.connect()
        session = Session(self._writing)
        session.cursor.execute(self.BEGIN)
        return session

    def save(self, session: Session) -> None:
        session.cursor.execute("SAVEPOINT job")

    def keep(self, session: Session) -> None:
        session.cursor.execute("RELEASE SAVEPOINT job")

    def commit(self, session: Session) -> None:
        session.cursor.execute("COMMIT")
        self._versions.update(session.changed)

    def version(self, table: str) -> int:
        return self._versions[table]

    def lost(self, error: BaseException) -> None:
        """Start over with a new connection: after a failed flush nobody knows what the old one holds."""
        logger.warning("A transaction on %s failed and was undone: %s", self.place, error)
        self.leave(broken=True)

    def leave(self, *, broken: bool = False) -> None:
        connection, self._writing = self._writing, None
        if connection is None:
            return
        try:
            if broken:
                connection.invalidate()
            connection.close()
        except Exception as error:
            logger.warning("Closing a connection to %s failed: %s", self.place, error)

    def undo_job(self, session: Session) -> bool:
        """Undo one job in a transaction that lives on."""
        session.cursor.execute("ROLLBACK TO SAVEPOINT job")
        session.cursor.execute("RELEASE SAVEPOINT job")
        return True
