"""Statements that are written once in SQLAlchemy Core and run by the bare driver.

Building, compiling and wrapping a statement costs SQLAlchemy 40 to 100 µs per call; the text is always the same, so it
is made once per dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table, insert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement

Arguments = tuple[Any, ...] | dict[str, Any]


class Statement:
    """One fixed statement with named parameters (`bindparam`)."""

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause
        self._texts: dict[str, _Text] = {}

    def text(self, dialect: Dialect) -> _Text:
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
        make = postgresql_insert if dialect.name == "postgresql" else sqlite_insert
        statement = make(self._table)
        if not self._change:
            return statement.on_conflict_do_nothing(index_elements=list(self._keys))
        return statement.on_conflict_do_update(
            index_elements=list(self._keys), set_={name: statement.excluded[name] for name in self._change}
        )


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
