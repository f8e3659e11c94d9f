"""SQLite: one file, many readers, one writer with group commit. Everything that only SQLite knows is in this file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from runyard.core.errors import RunyardError, StoreUnavailable
from runyard.store.damage import Damaged
from runyard.store.database import Session
from runyard.store.grouped import GroupedDatabase
from runyard.store.mounts import MOUNTS, find_network_file_system
from runyard.store.sql import SqlStore

BUSY_TIMEOUT_S = 15.0
CHECKPOINT_PAGES = 4096  # 16 MiB: a checkpoint per 4 MiB, the default, costs bulk ingest about a fifth

_DAMAGED = (
    "The file is damaged.",
    "Stop the server, keep a copy of the file, and restore a backup or set RUNYARD_HOME to an empty folder.",
)
# The driver has no class per failure and Python 3.10 no error codes, so the texts of SQLite's error table tell.
_FAILURES = (
    ("disk is full", "The disk is full.", "Free some space on it, then repeat the call; nothing was written."),
    ("disk i/o error", "The disk refused to read or write: full, over quota, or failing.",
     "Check `df -h` and `dmesg`, then repeat the call; nothing was written."),
    ("malformed", *_DAMAGED),
    ("could not decode to utf-8", *_DAMAGED),
    ("not a database", "The file is not a SQLite database.", "Move it away, or set RUNYARD_HOME to another folder."),
    ("locked", "Another process kept it locked.", "Find it with `fuser -v` on the file, or repeat the call."),
    ("readonly", "The file cannot be written.", "Check owner and permissions of the file and of its folder."),
    ("unable to open", "The file cannot be opened.", "Check owner and permissions of the file and of its folder."),
    ("file is encrypted", "The file is not a SQLite database.", "Move it away, or set RUNYARD_HOME to another folder."),
)  # fmt: skip


class SqliteStore(SqlStore):
    """RunStore in one SQLite file."""

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        super().__init__(SqliteDatabase(path), clock=clock)


def open_sqlite(path: str) -> SqliteStore:
    return SqliteStore(Path(path))


class SqliteDatabase(GroupedDatabase):
    BEGIN = "BEGIN IMMEDIATE"

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_network_file_system(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreUnavailable(
                f"The folder `{path.parent}` for the database cannot be made.",
                why=str(error),
                hint="Check RUNYARD_HOME.",
            ) from error
        # Connections move between threads, but serve one at a time.
        engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=QueuePool, pool_size=4, max_overflow=60, pool_use_lifo=True
        )
        super().__init__(engine, str(path))

    def lock_schema(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN EXCLUSIVE")

    def begin_read(self, session: Session) -> None:
        session.cursor.execute("BEGIN")

    def undo(self, session: Session) -> bool:
        # Disk full and I/O errors can end SQLite's transaction as a whole.
        if not session.connection.connection.dbapi_connection.in_transaction:  # type: ignore[union-attr]  # sqlite3's own
            return False
        return self.undo_job(session)

    def failure(self, error: BaseException) -> StoreUnavailable | None:
        return explain(error, self.path)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            _switch_to_wal(connection)
            for pragma in (
                "synchronous=FULL",
                "foreign_keys=ON",
                "mmap_size=0",
                f"wal_autocheckpoint={CHECKPOINT_PAGES}",
                "journal_size_limit=67108864",
                "cell_size_check=ON",
            ):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection


def refuse_network_file_system(path: Path, *, mounts: Path = MOUNTS) -> None:
    """Raise StoreUnavailable where SQLite's locks and shared memory do not hold."""
    found = find_network_file_system(path, mounts=mounts)
    if found:
        raise StoreUnavailable(
            f"The database `{path}` cannot be kept on a network file system.",
            why=f"`{found.mount_point}` is {found.type}; SQLite's locks do not hold there.",
            hint="Set RUNYARD_HOME to a folder on this machine's own disk.",
        )


def explain(error: BaseException, path: Path) -> StoreUnavailable | None:
    """Return the error for people that a driver's error means; None for mistakes of ours and errors that are ready."""
    if isinstance(error, RunyardError):
        return None
    if isinstance(error, Damaged):
        why, hint = _DAMAGED
        return StoreUnavailable(f"The database `{path}` cannot be used.", why=f"{why} ({error})", hint=hint)
    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    if not isinstance(error, sqlite3.Error) or isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
        return None
    text = str(error)
    for words, why, hint in _FAILURES:
        if words in text.lower():
            return StoreUnavailable(f"The database `{path}` cannot be used.", why=f"{why} (SQLite: {text})", hint=hint)
    return None


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Set the journal mode. Of several processes that do it at once all but one are told "locked", without waiting."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise sqlite3.OperationalError(f"unable to open in WAL mode, journal mode is {mode}")
        return
