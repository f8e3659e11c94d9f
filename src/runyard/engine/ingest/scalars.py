"""Values that came as JSON: what counts as a scalar, and how rows of them become a table's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.core.names import MAX_METRIC_NAME
from runyard.engine.texts import printable, storable
from runyard.store.base import Rows

MAX_COLUMNS = 1000
_SCALARS = frozenset({str, int, float, bool, type(None)})


class Unusable(Exception):
    """A record that cannot be applied; the text says why."""


def scalar_list(values: object) -> list[Any]:
    if not isinstance(values, list):
        raise Unusable(f"its values are {type(values).__name__}, not a list")
    wrong = set(map(type, values)) - _SCALARS
    if wrong:
        raise Unusable(f"it holds a {wrong.pop().__name__}, which is no scalar")
    return [printable(value) if type(value) is str else value for value in values]


def row_columns(columns: object) -> dict[str, list[Any]]:
    """Return a ROW's columns as lists of one."""
    checked = _named_columns(columns)
    return {name: scalar_list([value]) for name, value in checked.items()}


def table_columns(columns: object) -> dict[str, list[Any]]:
    """Return a TABLE's columns; all have one length."""
    checked = {
        name: scalar_list(value if isinstance(value, list) else [value])
        for name, value in _named_columns(columns).items()
    }
    if len({len(values) for values in checked.values()}) > 1:
        raise Unusable("its columns have different lengths")
    return checked


class RowBatch:
    """Rows of one metric, joined into one table; a column that a row lacks is None there."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self._columns: dict[str, list[Any]] = {}
        self._times: list[int] = []
        self._done: list[Rows] = []

    def add(self, columns: Mapping[str, list[Any]], time: int) -> None:
        if len(self._columns.keys() | columns.keys()) > MAX_COLUMNS:
            self._close()
        before = len(self._times)
        count = len(next(iter(columns.values()), []))
        for name in columns:
            if name not in self._columns:
                self._columns[name] = [None] * before
        for name, cells in self._columns.items():
            cells.extend(columns.get(name) or [None] * count)
        self._times.extend([time] * count)

    def rows(self) -> Iterator[Rows]:
        self._close()
        yield from self._done

    def _close(self) -> None:
        if self._times:
            self._done.append(Rows(metric=self.metric, columns=self._columns, times=self._times))
        self._columns, self._times = {}, []


def _named_columns(columns: object) -> dict[str, Any]:
    if not isinstance(columns, dict) or not columns:
        raise Unusable("it has no columns")
    if len(columns) > MAX_COLUMNS:
        raise Unusable(f"it has {len(columns)} columns; {MAX_COLUMNS} is the most")
    named = {storable(name): value for name, value in columns.items()}
    if any(len(name) > MAX_METRIC_NAME for name in named):
        raise Unusable(f"a column's name has more than {MAX_METRIC_NAME} characters")
    return named
