"""The one writer: many callers' writes share a transaction, and so one flush of the disk."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from runyard.core.errors import StoreUnavailable
from runyard.store.sql.database import Session

logger = logging.getLogger(__name__)
T = TypeVar("T")

MAX_JOBS = 512  # in one transaction
MAX_WORK_S = 0.05  # after this long a transaction takes no more jobs, so that nobody waits on a long queue


class Transactions(Protocol):
    """What the writer needs of a database. Each call may raise; after `lost` the next `begin` uses a new connection."""

    def begin(self) -> Session: ...
    def save(self, session: Session) -> None: ...
    def keep(self, session: Session) -> None: ...
    def undo(self, session: Session) -> bool:
        """Undo to the last `save`; False when the whole transaction is gone."""
        ...

    def commit(self, session: Session) -> None: ...
    def lost(self, error: BaseException) -> None: ...
    def failure(self, error: BaseException) -> Exception | None:
        """Return what a caller gets for a driver's error, a new one per call; None for all other errors."""
        ...

    def leave(self) -> None: ...


class GroupWriter:
    """Runs jobs on a thread of its own, many per transaction, each in a savepoint.

    A job that raises undoes only itself. Callers get their result after the COMMIT that holds it, so an answer means
    durable. Jobs that arrive while a commit flushes the disk make up the next transaction.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self.commits = 0
        self._thread = threading.Thread(target=self._loop, name="store-writer", daemon=True)
        self._thread.start()

    def write(self, job: Callable[[Session], T]) -> T:
        waiting = _Job(job)
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The store is closed.", why="The server is stopping.", hint="Start it again.")
            self._jobs.put(waiting)
        return waiting.wait()

    def close(self) -> None:
        """Finish what was handed over, then end the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def _loop(self) -> None:
        stop = False
        while not stop:
            first = self._jobs.get()
            if first is None:
                break
            stop = self._transaction(first)
        self._transactions.leave()

    def _transaction(self, first: _Job[Any]) -> bool:
        jobs = [first]
        stop = False
        try:
            session = self._transactions.begin()
            started = time.monotonic()
            self._do(session, first)
            while len(jobs) < MAX_JOBS and time.monotonic() - started < MAX_WORK_S:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    stop = True
                    break
                jobs.append(job)
                self._do(session, job)
            self._transactions.commit(session)
            self.commits += 1
        except BaseException as error:
            self._transactions.lost(error)
            for job in jobs:
                job.fail(self._transactions.failure(error) or error, cause=error)
        for job in jobs:
            job.finish()
        return stop

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
