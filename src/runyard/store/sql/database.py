"""A database as the store's parts see it: sessions to read and write with, whatever the product behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Row
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql.expression import Executable

from runyard.store.sql.statements import Statement

T = TypeVar("T")
# Most parameters of one statement; SQLite before 3.32 takes no more.
MAX_PARAMETERS = 900
_STREAMING = {"stream_results": True, "max_row_buffer": 100}  # PostgreSQL would send all rows at once


class Session:
    """One connection inside one transaction. Used by one thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = connection.dialect
        self.cursor: DBAPICursor = connection.connection.cursor()
        self.changed: set[str] = set()  # tables that were written to

    def run(self, statement: Statement, **values: Any) -> int:
        """Execute and return the number of rows changed."""
        text = statement.text(self.dialect)
        if statement.changes is not None:
            self.changed.add(statement.changes)
        self.cursor.execute(text.sql, text.arguments(values))
        return self.cursor.rowcount

    def many(self, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            text = statement.text(self.dialect)
            if statement.changes is not None:
                self.changed.add(statement.changes)
            arguments: Any = [text.arguments(row) for row in rows]
            self.cursor.executemany(text.sql, arguments)

    def one(self, statement: Statement, **values: Any) -> Any:
        """Return the first row as a tuple, or None."""
        text = statement.text(self.dialect)
        self.cursor.execute(text.sql, text.arguments(values))
        return self.cursor.fetchone()

    def all(self, statement: Statement, **values: Any) -> list[Any]:
        text = statement.text(self.dialect)
        self.cursor.execute(text.sql, text.arguments(values))
        return list(self.cursor.fetchall())

    def each(self, statement: Statement, **values: Any) -> Iterator[Any]:
        """Yield rows as they are read, so that only some are in memory; run nothing else in between."""
        text = statement.text(self.dialect)
        self.cursor.execute(text.sql, text.arguments(values))
        while batch := self.cursor.fetchmany(100):
            yield from batch

    def select(self, statement: Executable) -> Sequence[Row[Any]]:
        """Run a statement that was built for this one call."""
        return self.connection.execute(statement).all()

    def iterate(self, statement: Executable) -> Iterator[Row[Any]]:
        """Yield the rows of a statement that was built for this one call; whoever stops early reads no more of them."""
        with self.connection.execute(statement, execution_options=_STREAMING) as result:
            yield from result


class Database(ABC):
    """Opens sessions and turns the driver's failures into StoreUnavailable. Shared between threads."""

    engine: Engine

    @abstractmethod
    def version(self, table: str) -> int:
        """Return a number that is another one after each transaction of this process that wrote to the table."""

    @abstractmethod
    def write(self, job: Callable[[Session], T]) -> T:
        """Run `job` in a transaction; return its result once that is durable. What it raises undoes only itself."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def failure(self, error: BaseException) -> Exception | None:
        """Return the StoreUnavailable that a driver's error means, or None where it is a mistake of ours."""

    @abstractmethod
    def begin_read(self, session: Session) -> None:
        """Start a transaction that sees one state of the database."""

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give a session that sees one state of the database."""
        with self.translated():
            with self.engine.connect() as connection:
                session = Session(connection)
                self.begin_read(session)
                yield session

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            failure = self.failure(error)
            if failure is None:
                raise
            raise failure from error
