"""A database as the store's parts see it: sessions to read and write with, whatever the product behind them.

Statements that are written once in SQLAlchemy Core and run by the bare driver.

Building, compiling and wrapping a statement costs SQLAlchemy 40 to 100 µs per call; the text is always the same, so it
is made once per dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Row, Table, insert
from sqlalchemy.engine.interfaces import DBAPICursor, Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase as Dml
from sqlalchemy.sql.expression import ClauseElement, Executable

Arguments = tuple[Any, ...] | dict[str, Any]
T = TypeVar("T")
# Most parameters of one statement; SQLite before 3.32 takes no more.
MAX_PARAMETERS = 900
_STREAMING = {"stream_results": True, "max_row_buffer": 100}  # PostgreSQL would send all rows at once


class Statement:
    """One fixed statement with named parameters (`bindparam`)."""

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause
        self.changes = str(clause.table.name) if isinstance(clause, Dml) else None  # type: ignore[union-attr]  # ours are tables
        self._texts: dict[str, _Text] = {}

    def text(self, dialect: Dialect) -> _Text:
        """Return the SQL for a product; it is compiled once."""
        found = self._texts.get(dialect.name)
        if found is None:
            found = self._texts[dialect.name] = _Text(self._build(dialect), dialect)
        return found

    def _build(self, dialect: Dialect) -> ClauseElement:
        return self._clause


class Insert(Statement):
    """INSERT of the columns named."""

    def __init__(self, table: Table, *columns: str) -> None:
        super().__init__(insert(table))
        self._columns = columns

    def text(self, dialect: Dialect) -> _Text:
        found = self._texts.get(dialect.name)
        if found is None:
            found = self._texts[dialect.name] = _Text(self._build(dialect), dialect, self._columns)
        return found


class Upsert(Insert):
    """INSERT that, where `keys` exist already, sets the columns of `change`, or leaves the row as it is."""

    def __init__(self, table: Table, *columns: str, keys: Sequence[str], change: Sequence[str] = ()) -> None:
        super().__init__(table, *columns)
        self._table, self._keys, self._change = table, keys, change

    def _build(self, dialect: Dialect) -> ClauseElement:
        # Each product spells it its own way, in a module that only its users should pay for.
        make = import_module(f"sqlalchemy.dialects.{dialect.name}").insert
        statement: Any = make(self._table)
        keys = list(self._keys)
        if not self._change:
            statement = statement.on_conflict_do_nothing(index_elements=keys)
        else:
            new = {name: statement.excluded[name] for name in self._change}
            statement = statement.on_conflict_do_update(index_elements=keys, set_=new)
        assert isinstance(statement, ClauseElement)
        return statement


class _Text:
    """The text of a statement for one driver and how its parameters are handed over."""

    def __init__(self, clause: ClauseElement, dialect: Dialect, columns: Sequence[str] | None = None) -> None:
        compiled = clause.compile(dialect=dialect, column_keys=None if columns is None else list(columns))
        assert isinstance(compiled, SQLCompiler)
        self.sql = str(compiled)
        self._order = compiled.positiontup
        self._fixed = {key: value for key, value in compiled.params.items() if value is not None}

    def arguments(self, values: Mapping[str, Any]) -> Arguments:
        if self._order is None:
            return {**self._fixed, **values}
        if not self._fixed:
            return tuple([values[name] for name in self._order])
        fixed = self._fixed
        return tuple([values[name] if name in values else fixed[name] for name in self._order])


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
        """Run a statement for each of the rows."""
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
        """Return all rows as tuples."""
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

    def scalars(self, statement: Executable) -> Sequence[Any]:
        """Return the first column of a statement that was built for this one call."""
        return self.connection.execute(statement).scalars().all()

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
    def close(self) -> None:
        """Close all connections, after the writes that wait. May be repeated."""

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
        """Turn a driver's errors inside the block into StoreUnavailable."""
        try:
            yield
        except Exception as error:
            failure = self.failure(error)
            if failure is None:
                raise
            raise failure from error
