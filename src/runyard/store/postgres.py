"""PostgreSQL: everything that only PostgreSQL knows is in this file. Extra `postgres`."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from runyard.core.config.logins import hide_passwords
from runyard.core.errors import MissingExtra, RunyardError, StoreUnavailable
from runyard.store.sql.database import Session
from runyard.store.sql.store import SqlStore
from runyard.store.sql.writes import GroupedDatabase
from runyard.store.text import DamagedBytes

try:
    import psycopg
except ImportError as error:
    raise MissingExtra(
        "A PostgreSQL database needs psycopg.",
        why="It is not installed where the server runs.",
        hint="`pip install 'runyard[postgres]'` where you start the server, and start it again.",
    ) from error

CONNECT_TIMEOUT_S = 10
CLAIM_PATIENCE_S = 10.0  # the database may not have noticed yet that the server before was killed
SERVER = 0x52756E79  # "Runy": who holds this advisory lock is the database's server
LOCK = 0x52756E79617264  # "Runyard": who holds this advisory lock changes the schema

_FAILURES: tuple[tuple[type[psycopg.Error], str, str], ...] = (
    (psycopg.errors.DiskFull, "The database's disk is full.", "Free some space there, then repeat the call."),
    (psycopg.errors.ReadOnlySqlTransaction, "The database takes no writes.", "Is it a standby? Name the primary."),
    (psycopg.errors.InsufficientPrivilege, "The database user may not do this.", "Make it the database's owner."),
    (psycopg.errors.InvalidPassword, "The password is wrong.", "Check the address given to `runyard server start`."),
    (psycopg.errors.InvalidCatalogName, "There is no such database.", "`createdb` makes one."),
    (psycopg.OperationalError, "The database cannot be reached or ended the connection.", "Is it running?"),
    (psycopg.InterfaceError, "The connection to the database is gone.", "Repeat the call."),
    (psycopg.InternalError, "The database failed.", "Look at its log."),
)


class PostgresStore(SqlStore):
    """RunStore in a PostgreSQL database. `url` is libpq's: `postgresql://user:password@host:5432/name`."""

    def __init__(self, url: str, *, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        self._postgres = PostgresDatabase(url)
        super().__init__(self._postgres, clock=clock)

    def claim(self) -> None:
        self._postgres.claim()


def open_postgres(rest: str) -> PostgresStore:
    """Open the database; called by `open_store` with the URL without its scheme. StoreUnavailable if it cannot."""
    return PostgresStore(f"postgresql:{rest}")


def is_empty(url: str) -> bool:
    """Whether the database has no Runyard tables yet.

    Raises:
        StoreUnavailable: it cannot be reached.
    """
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S, application_name="runyard") as connection:
            found = connection.execute("SELECT to_regclass('alembic_version')").fetchone()
    except psycopg.Error as error:
        raise explain(error, place_of(url)) or error from error
    return found is None or found[0] is None


class PostgresDatabase(GroupedDatabase):
    """A PostgreSQL database: a pool of connections to read, one connection for the writer."""

    BEGIN = "BEGIN"

    def __init__(self, url: str) -> None:
        self._url = url
        self._claim: psycopg.Connection[Any] | None = None
        # Transactions are begun by hand, as SQLite's are, so connections commit by themselves otherwise.
        engine = create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=16,
            max_overflow=48,
            pool_use_lifo=True,
            pool_pre_ping=True,
            isolation_level="AUTOCOMMIT",
        )
        super().__init__(engine, place_of(url))

    def claim(self) -> None:
        """Hold an advisory lock on a connection of its own, which ends with this process however that ends."""
        give_up_at = time.monotonic() + CLAIM_PATIENCE_S
        try:
            self._claim = self._claim or self._connect()
            while not self._try_claim(self._claim):
                if time.monotonic() > give_up_at:
                    raise _claimed(self.place)
                time.sleep(0.1)
        except psycopg.Error as error:
            raise self.failure(error) or error from error

    def close(self) -> None:
        super().close()
        if self._claim is not None:
            self._claim.close()

    def _try_claim(self, connection: psycopg.Connection[Any]) -> bool:
        found = connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))", (SERVER,)).fetchone()
        return found is not None and bool(found[0])

    def lock_schema(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")

    def begin_read(self, session: Session) -> None:
        session.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def undo(self, session: Session) -> bool:
        return not self._raw(session).broken and self.undo_job(session)

    def failure(self, error: BaseException) -> StoreUnavailable | None:
        """As the base class says."""
        return explain(error, self.place)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="runyard",
            client_encoding="utf8",
        )

    def _raw(self, session: Session) -> psycopg.Connection[Any]:
        found: Any = session.connection.connection.dbapi_connection
        assert isinstance(found, psycopg.Connection)
        return found


def explain(error: BaseException, place: str) -> StoreUnavailable | None:
    """Return the error for people that a driver's error means; None for mistakes of ours and errors that are ready."""
    if isinstance(error, RunyardError):
        return None
    what = f"The database `{place}` cannot be used."
    if isinstance(error, DamagedBytes):
        return StoreUnavailable(what, why=str(error), hint="Restore a backup.")
    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    if isinstance(error, PoolTimeout):
        return StoreUnavailable(what, why="All connections to it are busy.", hint="Repeat the call.")
    for kind, why, hint in _FAILURES:
        if isinstance(error, kind):
            text = hide_passwords(str(error)).strip()
            return StoreUnavailable(what, why=f"{why} (PostgreSQL: {text})", hint=hint)
    return None


def _claimed(place: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The database `{place}` cannot be used.",
        why="Another Runyard server uses it; two would both start and end its runs.",
        hint="Stop the other one (`runyard server stop` there), or give this server a database of its own.",
    )


def place_of(url: str) -> str:
    """Return where the database is, without user and password.

    Raises:
        StoreUnavailable: it is no address of a database.
    """
    try:
        found = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise StoreUnavailable(
            "The database's address cannot be read.", hint="Write it as postgresql://user:password@host:5432/name."
        ) from None
    port = f":{found['port']}" if "port" in found else ""
    return f"postgresql://{found.get('host') or ''}{port}/{found.get('dbname') or ''}"
