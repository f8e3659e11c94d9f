"""Statements that are written once in SQLAlchemy Core and run by the bare driver.

Building, compiling and wrapping a statement costs SQLAlchemy 40 to 100 µs per call; the text is always the same, so it
is made once per dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from sqlalchemy import Table, insert
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase as Dml
from sqlalchemy.sql.expression import ClauseElement

Arguments = tuple[Any, ...] | dict[str, Any]


class Statement:
    """One fixed statement with named parameters (`bindparam`)."""

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause
        self.changes = str(clause.table.name) if isinstance(clause, Dml) else None  # type: ignore[union-attr]  # ours are tables
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
