"""SQLite: one file, many readers, one writer with group commit. Everything that only SQLite knows is in this file.

Whether the files of an open SQLite database are still those that were opened.

SQLite goes on with files that were removed or replaced, and what it writes then is lost with the process. This looks at
names, sizes and times only: to open and close the file here would drop the locks that SQLite holds on it (POSIX).
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from runyard.core.errors import RunyardError, StoreUnavailable
from runyard.store.mounts import MOUNTS, find_network_file_system
from runyard.store.sql.database import Session
from runyard.store.sql.store import SqlStore
from runyard.store.sql.writes import GroupedDatabase
from runyard.store.text import DamagedBytes

_HEADER_BYTES = 100
_COUNTER_AT, _ID_AT = 24, 60  # of SQLite's header: its change counter, and `user_version`, where our id is
_READ_PATIENCE_S = 10
BUSY_TIMEOUT_S = 15.0
CHECKPOINT_PAGES = 4096  # 16 MiB: a checkpoint per 4 MiB, the default, costs bulk ingest about a fifth
_DAMAGED = (
    "The file is damaged.",
    "`runyard server stop`, then `runyard server repair`: it saves every row that can be read, and keeps the damaged "
    "file. Or restore a backup.",
)
# The driver has no class per failure and Python 3.10 no error codes, so the texts of SQLite's error table tell.
_FAILURES = (
    ("disk is full", "The disk is full.", "Free some space on it, then repeat the call; nothing was written."),
    ("disk i/o error", "The disk refused to read or write: full, over quota, or failing.",
     "Check `df -h` and `dmesg`, then repeat the call; nothing was written."),
    ("malformed", *_DAMAGED),
    ("could not decode to utf-8", *_DAMAGED),
    ("not a database", "The file is not a SQLite database, or its beginning is damaged.",
     "`runyard server repair` saves what can be read; or move it away, or set RUNYARD_HOME to another folder."),
    ("locked", "Another process kept it locked.", "Find it with `fuser -v` on the file, or repeat the call."),
    ("readonly", "The file cannot be written.", "Check owner and permissions of the file and of its folder."),
    ("unable to open", "The file cannot be opened.", "Check owner and permissions of the file and of its folder."),
    ("file is encrypted", "The file is not a SQLite database.", "Move it away, or set RUNYARD_HOME to another folder."),
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """How the database's file differs from the one that was opened."""

    what: str  # completes "The file `…` "
    is_final: bool = True  # otherwise all is well as soon as the file is back
    keeps_content: bool = False  # the open file still has everything


class FileGuard:
    """Used under a lock of its database."""

    def __init__(self, path: Path, id: int, *, counter: int) -> None:
        """`counter` is what `read_counter` said before the database was opened."""
        self._path = str(path)
        self._journal = os.path.realpath(path) + "-wal"
        self._id = id
        found = os.stat(path)
        self._file = _identity(found)
        self._size, self._written_ns = found.st_size, found.st_mtime_ns
        self._counter = counter
        self._journal_file: tuple[int, int] | None = None
        self._final: Fault | None = None

    def note_journal(self) -> None:
        """Call when a connection that stays open has the journal open: from then on nobody else may remove it."""
        try:
            self._journal_file = _identity(os.stat(self._journal))
        except OSError:
            self._journal_file = None

    def forget_journal(self) -> None:
        """Call before that connection is closed: the last one to close removes the journal."""
        self._journal_file = None

    def note_commit(self) -> None:
        """Call after a commit: it may have written to the file."""
        try:
            found = os.stat(self._path)
        except OSError:
            return
        self._size, self._written_ns = max(self._size, found.st_size), found.st_mtime_ns

    def look(self, *, after_commit: bool = False) -> Fault | None:
        """Return what happened to the files since; two calls of stat where all is well."""
        if self._final is None:
            found = self._look(after_commit)
            if found is None or not found.is_final:
                return found
            self._final = found
        return self._final

    def _look(self, after_commit: bool) -> Fault | None:
        try:
            found = os.stat(self._path)
        except OSError as error:
            return Fault(f"is gone ({error.strerror})", is_final=False, keeps_content=True)
        if _identity(found) != self._file:
            return Fault("is another file than the one that the server opened", is_final=False, keeps_content=True)
        if found.st_size < self._size:
            return Fault(f"was cut from {self._size} to {found.st_size} bytes")
        if found.st_mtime_ns != self._written_ns and not after_commit:
            fault = self._look_inside()
            if fault is not None:
                return fault
            self._written_ns = found.st_mtime_ns
        if self._journal_file is not None and _identity_of(self._journal) != self._journal_file:
            return Fault("lost its journal (`-wal`), which was removed or replaced", keeps_content=True)
        return None

    def _look_inside(self) -> Fault | None:
        """Somebody else wrote to the file. Another SQLite process may; another database must not be copied into it."""
        header = _read_elsewhere(self._path)
        if len(header) < _HEADER_BYTES:
            return None  # no answer is no proof
        counter, id = _parse_header(header)
        if id != self._id or (counter - self._counter) % (1 << 32) >= 1 << 31:
            return Fault("was overwritten by another program")
        return None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def read_counter(path: Path) -> int:
    """Return the change counter in a database file's header, 0 without one. Only before this process opens it."""
    try:
        with open(path, "rb") as file:
            return _parse_header(file.read(_HEADER_BYTES))[0]
    except OSError:
        return 0


def _read_elsewhere(path: str) -> bytes:
    """Return the header, read by another process, as is said above."""
    command = ["head", "-c", str(_HEADER_BYTES), "--", path]
    try:
        return subprocess.run(command, capture_output=True, timeout=_READ_PATIENCE_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""


def _parse_header(header: bytes) -> tuple[int, int]:
    """Return the change counter and our id."""
    if len(header) < _HEADER_BYTES:
        return 0, 0
    return struct.unpack_from(">I", header, _COUNTER_AT)[0], struct.unpack_from(">I", header, _ID_AT)[0]


logger = logging.getLogger(__name__)


class SqliteStore(SqlStore):
    """RunStore in one SQLite file."""

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        self._sqlite = SqliteDatabase(path)
        super().__init__(self._sqlite, clock=clock)

    def find_fault(self) -> StoreUnavailable | None:
        return self._sqlite.find_fault()


def open_sqlite(path: str) -> SqliteStore:
    """Open or create the file; called by `open_store`. Raises StoreUnavailable."""
    return SqliteStore(Path(path))


class SqliteDatabase(GroupedDatabase):
    """A SQLite file in WAL mode, guarded against being removed or replaced."""

    BEGIN = "BEGIN IMMEDIATE"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard: FileGuard | None = None
        self._guard_lock = threading.Lock()
        self._fault: Fault | None = None
        self._saved: str | None = None  # where to, "" for nowhere
        refuse_network_file_system(path)
        counter = read_counter(path)
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
            "sqlite://", creator=self._connect, poolclass=QueuePool, pool_size=16, max_overflow=48, pool_use_lifo=True
        )
        super().__init__(engine, str(path))
        try:
            with self.translated(), engine.connect() as connection:
                self._guard = FileGuard(path, _file_id(connection), counter=counter)
        except BaseException:
            self.close()
            raise

    def begin(self) -> Session:
        self._refuse_lost_files()
        is_new = self._writing is None
        session = super().begin()
        if is_new and self._guard is not None:
            self._guard.note_journal()
        return session

    def commit(self, session: Session) -> None:
        super().commit(session)
        self._refuse_lost_files(after_commit=True)
        if self._guard is not None:
            self._guard.note_commit()

    def lost(self, error: BaseException) -> None:
        if self._fault is None:  # otherwise the connection is all that still has the database: it stays open
            super().lost(error)

    def leave(self, *, broken: bool = False) -> None:
        if self._guard is not None:
            self._guard.forget_journal()
        super().leave(broken=broken)

    def find_fault(self) -> StoreUnavailable | None:
        """Return why the files cannot be used any more, None when they can. Any thread, as often as one likes."""
        if self._look() is None:
            return None
        try:
            self.write(lambda session: None)  # the writer saves what it can
        except StoreUnavailable as error:
            return error
        return None

    def _look(self, *, after_commit: bool = False) -> Fault | None:
        if self._guard is None:
            return None
        with self._guard_lock:
            found = self._guard.look(after_commit=after_commit)
            if found is None and self._fault is not None:
                logger.warning("The database %s is back.", self.path)
            is_news = found is not None and self._fault is None
            self._fault = found
        if is_news and found is not None:
            logger.error("The database %s cannot be used any more: the file %s.", self.path, found.what)
        return found

    def _refuse_lost_files(self, *, after_commit: bool = False) -> None:
        """Raise StoreUnavailable when what is written now would be lost. On the writer's thread."""
        had = self._fault
        fault = self._look(after_commit=after_commit)
        if fault is None:
            return
        if had is None or self._saved is None:
            self._saved = self._save(fault)
        raise lost_file(self.path, fault, self._saved)

    def _save(self, fault: Fault) -> str:
        """Bring what the open files hold to where it lasts; return the new file, "" when there is none."""
        if not fault.keeps_content or self._writing is None:
            return ""
        source = self._writing.connection.dbapi_connection
        assert isinstance(source, sqlite3.Connection)
        try:
            if fault.is_final:  # the journal: the database itself is in its place
                source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                return ""
            copy = self.path.with_name(f"{self.path.name}.rescued-{time.strftime('%Y%m%d-%H%M%S')}")
            with closing(sqlite3.connect(copy)) as target:
                source.backup(target)
        except (sqlite3.Error, OSError) as error:
            logger.error("What the database %s held could not be saved: %s", self.path, error)
            return ""
        logger.error("What the database held was saved as %s.", copy)
        return str(copy)

    def lock_schema(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN EXCLUSIVE")

    def begin_read(self, session: Session) -> None:
        if self._fault is not None:
            raise lost_file(self.path, self._fault, self._saved or "")
        session.cursor.execute("BEGIN")

    def undo(self, session: Session) -> bool:
        # Disk full and I/O errors can end SQLite's transaction as a whole.
        if not session.connection.connection.dbapi_connection.in_transaction:  # type: ignore[union-attr]  # sqlite3's own
            return False
        return self.undo_job(session)

    def failure(self, error: BaseException) -> StoreUnavailable | None:
        return explain(error, self.path)

    def _connect(self) -> sqlite3.Connection:
        fault = self._look() if self._fault is None else self._fault
        if fault is not None:  # another file, or a new one, would be opened
            raise lost_file(self.path, fault, self._saved or "")
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


def lost_file(path: Path, fault: Fault, saved: str) -> StoreUnavailable:
    """Return the error for who reads or writes then."""
    if saved:
        hint = f"What it held was saved: `runyard server stop`, then `mv {saved} {path}`."
    elif fault.is_final and fault.keeps_content:
        hint = "Nothing is lost yet: start the server again (`runyard server stop`, `runyard server start`)."
    elif fault.is_final:
        hint = f"`runyard server stop`, keep a copy of `{path}`, and restore a backup; or `runyard server repair`."
    else:
        hint = "Put the file back. The server does not make a new one."
    return StoreUnavailable(
        f"The database `{path}` cannot be used.", why=f"The file {fault.what}. Nothing is stored meanwhile.", hint=hint
    )


def _file_id(connection: Connection) -> int:
    """Return the number that tells this file from any other, made on the first call."""
    found = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if not found:
        found = secrets.randbelow((1 << 31) - 1) + 1
        connection.exec_driver_sql(f"PRAGMA user_version={found}")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")  # into the file's own header
    return found


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
    if isinstance(error, DamagedBytes):
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
