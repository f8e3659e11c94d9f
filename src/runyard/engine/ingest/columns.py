"""Number cells of a journal into columns: one pass of numpy over many thousand records.

Values that came as JSON: what counts as a scalar, and how rows of them become a table's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runyard.core.formats.journal import BOOL, CELL, FLOAT, HAS_STEP, INT
from runyard.core.names import MAX_METRIC_NAME
from runyard.engine.sanitize import printable, storable
from runyard.store.base import Points, Rows

CELLS = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("zero", "<u2"),
        ("name", "<u4"),
        ("step", "<i8"),
        ("time", "<i8"),
        ("value", "<f8"),
    ]
)
assert CELLS.itemsize == CELL

EXACT_IN_FLOAT = 1 << 53
_LOOKUP_MOST = 1 << 16
MAX_COLUMNS = 1000
_SCALARS = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class NumberColumn:
    """All number cells of one name id set, in journal order; `first` is the index of its first cell."""

    code: int
    first: int
    kinds: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    places: NDArray[np.int64]  # index of each cell among all cells


def gather(data: memoryview, spans: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """Return the cells of byte ranges [start, stop) of `data` as one array; a single range is not copied."""
    arrays = [np.frombuffer(data[start:stop], dtype=CELLS) for start, stop in spans]
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=CELLS)


def encode(ids: NDArray[np.uint32], codes: Mapping[int, int], unknown: int) -> NDArray[Any]:
    """Return each cell's code in the narrowest type: a stable sort of 8 or 16 bits is a radix sort."""
    narrow = np.uint8 if unknown < 1 << 8 else np.uint16 if unknown < 1 << 16 else np.uint32
    known = [name_id for name_id in codes if 0 <= name_id < 1 << 32]
    top = max(known, default=0)
    if top < _LOOKUP_MOST:
        table = np.full(top + 2, unknown, dtype=narrow)
        for name_id in known:
            table[name_id] = codes[name_id]
        return np.asarray(table[np.minimum(ids, np.uint32(top + 1))])
    order = np.array(sorted(known), dtype=np.uint32)
    table = np.array([codes[int(name_id)] for name_id in order], dtype=narrow)
    at = np.minimum(np.searchsorted(order, ids), len(order) - 1)
    return np.where(order[at] == ids, table[at], narrow(unknown))


def iter_columns(cells: NDArray[Any], codes: NDArray[Any]) -> Iterator[NumberColumn]:
    """Yield the cells of each code, in journal order within it."""
    if not len(cells):
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    ends = np.append(starts[1:], len(order))
    for start, end in zip(starts.tolist(), ends.tolist()):
        places = order[start:end]
        yield NumberColumn(
            code=int(ordered[start]),
            first=int(places[0]),
            kinds=cells["kind"][places],
            flags=cells["flags"][places],
            steps=cells["step"][places],
            times=cells["time"][places],
            values=cells["value"][places],
            places=places,
        )


def points_of(metric: str, column: NumberColumn) -> Iterator[Points]:
    """Yield a column as Points: one batch, or several where some calls gave a step and others did not."""
    stepped = column.flags & HAS_STEP
    low, high = int(stepped.min()), int(stepped.max())
    if low == high:
        yield _batch(metric, column, slice(None), bool(low))
        return
    edges = [0, *(np.flatnonzero(stepped[1:] != stepped[:-1]) + 1).tolist(), len(stepped)]
    for start, end in zip(edges, edges[1:]):
        yield _batch(metric, column, slice(start, end), bool(stepped[start]))


def cut(column: NumberColumn, start: int, end: int) -> NumberColumn:
    """Return the cells [start, end) of a column."""
    part = slice(start, end)
    return NumberColumn(
        code=column.code,
        first=int(column.places[start]),
        kinds=column.kinds[part],
        flags=column.flags[part],
        steps=column.steps[part],
        times=column.times[part],
        values=column.values[part],
        places=column.places[part],
    )


def _batch(metric: str, column: NumberColumn, part: slice, stepped: bool) -> Points:
    kind, values = _typed(column.kinds[part], column.values[part])
    steps = column.steps[part] if stepped else None
    return Points(metric=metric, kind=kind, values=values, times=column.times[part], steps=steps)


def _typed(
    kinds: NDArray[np.uint8], raw: NDArray[np.float64]
) -> tuple[str, NDArray[np.float64] | NDArray[np.int64] | list[Any]]:
    low, high = int(kinds.min()), int(kinds.max())
    integers = raw.view(np.int64)
    if high == FLOAT:
        return "f8", raw
    if low == BOOL:
        return "b1", (integers != 0).astype(np.int64)
    if high == BOOL:
        return "json", _exact(kinds, raw, integers)  # True beside 1 or 0.5 stays True, as it does across batches
    if low == INT:
        return "i8", integers
    is_float = kinds == FLOAT
    large = (integers > EXACT_IN_FLOAT) | (integers < -EXACT_IN_FLOAT)
    if bool(np.any(large & ~is_float)):
        return "json", _exact(kinds, raw, integers)
    return "f8", np.where(is_float, raw, integers.astype(np.float64))


def _exact(kinds: NDArray[np.uint8], raw: NDArray[np.float64], integers: NDArray[np.int64]) -> list[Any]:
    """Return the values as Python logged them."""
    columns = zip(kinds.tolist(), raw.tolist(), integers.tolist())
    return [real if kind == FLOAT else whole != 0 if kind == BOOL else whole for kind, real, whole in columns]


class Unusable(Exception):
    """A record that cannot be applied; the text says why."""


def scalar_list(values: object) -> list[Any]:
    """Return `values` as a list of scalars, texts printable.

    Raises:
        Unusable: it is no list, or holds something else.
    """
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
        """Add rows that were logged at `time`. All columns have one length."""
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
        """Yield the tables; several where one would have too many columns."""
        self._close()
        yield from self._done

    def _close(self) -> None:
        if self._times:
            self._done.append(Rows(metric=self.metric, columns=self._columns, times=self._times))
        self._columns, self._times = {}, []


def _named_columns(columns: object) -> dict[str, object]:
    if not isinstance(columns, dict) or not columns:
        raise Unusable("it has no columns")
    if len(columns) > MAX_COLUMNS:
        raise Unusable(f"it has {len(columns)} columns; {MAX_COLUMNS} is the most")
    named = {storable(name): value for name, value in columns.items()}
    if any(len(name) > MAX_METRIC_NAME for name in named):
        raise Unusable(f"a column's name has more than {MAX_METRIC_NAME} characters")
    return named
