"""Series of one metric and rank become one: writers by monotonic time, attempts one after another. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.store.base import Series
from runyard.store.metrics.chunks import Columns, concatenate
from runyard.store.metrics.kinds import JSON, settle, to_python

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Piece:
    """What one writer logged into one segment. `numbered`: its steps are only positions."""

    attempt: int
    writer: str
    segment: int
    wall_offset_ns: int
    numbered: bool
    columns: Columns

    @property
    def place(self) -> tuple[int, str, int]:
        return self.attempt, self.writer, self.segment


def merge(pieces: Sequence[Piece], *, metric: str, column: str, rank: int) -> Series:
    """Return all points in reading order."""
    ordered = sorted(pieces, key=lambda piece: piece.place)
    groups = [_merge_attempt(list(group)) for _, group in groupby(ordered, key=lambda piece: piece.attempt)]
    columns = concatenate([group[0] for group in groups])
    offsets = np.concatenate([group[1] for group in groups]) if len(groups) > 1 else groups[0][1]
    kind, values = columns.kind, columns.values
    if kind == JSON:
        kind, values = settle(values)
    steps = columns.steps
    if len(pieces) > 1 and all(piece.numbered for piece in pieces):
        steps = np.arange(len(columns), dtype=np.int64)
    return Series(metric, column, rank, kind, values, steps, columns.times + offsets)


def fill(column: Piece | None, rows: Piece) -> Piece:
    """Return a table's column with None in the rows that lack it. Steps of a column are row numbers."""
    if column is not None and len(column.columns) == len(rows.columns):
        return Piece(*rows.place, rows.wall_offset_ns, True, column.columns)
    values: list[Any] = [None] * len(rows.columns)
    if column is not None:
        for step, value in zip(column.columns.steps.tolist(), to_python(column.columns.values, column.columns.kind)):
            values[step] = value
    filled = Columns(JSON, values, rows.columns.steps, rows.columns.times)
    return Piece(*rows.place, rows.wall_offset_ns, True, filled)


def _merge_attempt(pieces: list[Piece]) -> tuple[Columns, NDArray[np.int64]]:
    offsets = np.repeat(
        np.array([piece.wall_offset_ns for piece in pieces], dtype=np.int64),
        [len(piece.columns) for piece in pieces],
    )
    columns = concatenate([piece.columns for piece in pieces])
    if len(pieces) == 1:
        return columns, offsets
    # Threads of one writer may take the time in one order and write in another: its own order stays.
    keys = np.concatenate([np.maximum.accumulate(piece.columns.times) for piece in pieces])
    order = np.argsort(keys, kind="stable")
    values: Any = columns.values
    values = [values[index] for index in order] if isinstance(values, list) else values[order]
    return Columns(columns.kind, values, columns.steps[order], columns.times[order]), offsets[order]
