"""Selects of runs' serials, each answered by one index alone: those that fit a comparison, all in a field's order.

Sets of runs as a flag per serial: made from what an index gives, joined by and, or, not within microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Field
from runyard.store.sql.schema import experiments, run_labels, run_metrics, runs
from runyard.store.text import clean, indexed, to_microseconds

LABELS = {"tags": "tag", "properties": "property", "params": "parameter"}  # field of a filter → kind of label
TEXTS: dict[str, ColumnElement[Any]] = {
    "status": runs.c.status,
    "name": runs.c.name,
    "type": runs.c.type,
    "target": runs.c.target,
    "user": runs.c.submitted_by,
}


def table_of(field: str) -> str:
    """Return the table whose rows decide about a field."""
    if field in LABELS:
        return run_labels.name
    return run_metrics.name if field == "metrics" else runs.name


def select_matching(comparison: Comparison, workspace_id: int, *, now_us: int) -> Select[Any]:
    """Return the select of runs that fit a comparison; some may be another workspace's."""
    if comparison.field in LABELS:
        c = run_labels.c
        return select(c.run_serial).where(_has_label(comparison.field, comparison.key), *_label_value(comparison))
    if comparison.field == "metrics":
        return _metric(comparison, workspace_id)
    if comparison.field == "experiment":
        fits = OPERATORS[comparison.op](experiments.c.name, clean(str(comparison.value)))
        named = select(experiments.c.id).where(experiments.c.workspace_id == workspace_id, fits)
        return select(runs.c.serial).where(runs.c.experiment_id.in_(named))
    if comparison.field == "duration":
        seconds = comparison.value if isinstance(comparison.value, float) else 0.0
        fits = [] if comparison.op == PRESENT else [OPERATORS[comparison.op](_lasted_us(now_us), seconds * 1e6)]
        return _started(workspace_id).where(*fits)
    return select(runs.c.serial).where(runs.c.workspace_id == workspace_id, *_column_value(comparison))


def numbers_in_order(field: Field, workspace_id: int, *, now_us: int) -> Select[Any] | None:
    """Return the runs that have a number there, by it."""
    if field.name in LABELS:
        c = run_labels.c
        labelled = select(c.run_serial).where(_has_label(field.name, field.key), c.number.is_not(None))
        return labelled.order_by(c.number, c.run_serial)
    if field.name == "metrics":
        there = _metric(Comparison("metrics", PRESENT, None, field.key), workspace_id)
        return there.order_by(run_metrics.c.last, run_metrics.c.run_serial)
    if field.name == "duration":
        return _started(workspace_id).order_by(_lasted_us(now_us), runs.c.serial)
    if field.name == "number":
        there = select(runs.c.serial).where(runs.c.workspace_id == workspace_id, runs.c.number.is_not(None))
        return there.order_by(runs.c.number, runs.c.serial)
    return None


def texts_in_order(field: Field, workspace_id: int, *, product: str) -> Select[Any] | None:
    """Return the runs that have a text there, by it; of labels also those whose text is a number."""
    if field.name in LABELS:
        c = run_labels.c
        labelled = select(c.run_serial).where(_has_label(field.name, field.key))
        return labelled.order_by(_by_code(c.value, product), c.run_serial)
    if field.name == "experiment":
        joined = select(runs.c.serial).join_from(experiments, runs, runs.c.experiment_id == experiments.c.id)
        return joined.where(experiments.c.workspace_id == workspace_id).order_by(
            _by_code(experiments.c.name, product), runs.c.serial
        )
    if field.name in TEXTS:
        column = TEXTS[field.name]
        there = select(runs.c.serial).where(runs.c.workspace_id == workspace_id, column != "")
        return there.order_by(_by_code(column, product), runs.c.serial)
    return None


def values(field: Field, workspace_id: int) -> Select[Any]:
    """Return value and serial of the runs that have the field."""
    if field.name in LABELS:
        c = run_labels.c
        return select(c.value, c.run_serial).where(_has_label(field.name, field.key))
    if field.name == "metrics":
        there = _metric(Comparison("metrics", PRESENT, None, field.key), workspace_id)
        return there.with_only_columns(run_metrics.c.last, run_metrics.c.run_serial)
    if field.name == "experiment":
        joined = select(experiments.c.name, runs.c.serial)
        joined = joined.join_from(experiments, runs, runs.c.experiment_id == experiments.c.id)
        return joined.where(experiments.c.workspace_id == workspace_id)
    if field.name == "number":
        return select(runs.c.number, runs.c.serial).where(runs.c.workspace_id == workspace_id)
    column = TEXTS[field.name]
    return select(column, runs.c.serial).where(runs.c.workspace_id == workspace_id, column != "")


def _started(workspace_id: int) -> Select[Any]:
    return select(runs.c.serial).where(runs.c.workspace_id == workspace_id, runs.c.started_us.is_not(None))


def _lasted_us(now_us: int) -> ColumnElement[int]:
    """How long a run took; one that goes on, so far."""
    return func.coalesce(runs.c.ended_us, now_us) - runs.c.started_us


def _has_label(field: str, key: str) -> ColumnElement[bool]:
    return (run_labels.c.kind == LABELS[field]) & (run_labels.c.key == indexed(key))


def _label_value(comparison: Comparison) -> list[ColumnElement[bool]]:
    c = run_labels.c
    if comparison.op == PRESENT:
        return []
    if isinstance(comparison.value, float):
        return [c.number.is_not(None), OPERATORS[comparison.op](c.number, comparison.value)]
    return [OPERATORS[comparison.op](c.value, indexed(str(comparison.value)))]


def _metric(comparison: Comparison, workspace_id: int) -> Select[Any]:
    m = run_metrics.c
    there = [m.workspace_id == workspace_id, m.name == clean(comparison.key), m.column == "", m.last.is_not(None)]
    compared = [] if comparison.op == PRESENT else [OPERATORS[comparison.op](m.last, comparison.value)]
    return select(m.run_serial).where(*there, *compared)


def _column_value(comparison: Comparison) -> list[ColumnElement[bool]]:
    if comparison.field == "created" and isinstance(comparison.value, datetime):
        return [OPERATORS[comparison.op](runs.c.created_us, to_microseconds(comparison.value))]
    if comparison.field == "number":
        return [OPERATORS[comparison.op](runs.c.number, comparison.value)]
    column = TEXTS[comparison.field]
    if comparison.op == PRESENT:
        return [column != ""]
    return [column.is_not(None), OPERATORS[comparison.op](column, indexed(str(comparison.value)))]


def _by_code(column: Any, product: str) -> Any:
    """Order texts by their characters' codes, as SQLite and Python do, wherever the database was set up."""
    return column.collate("C") if product == "postgresql" else column


Serials = Sequence[int]


class SerialSet:
    """Which of the serials 0 to `size` - 1 are in the set."""

    __slots__ = ("_bytes", "size")

    def __init__(self, size: int, flags: bytes | bytearray | None = None) -> None:
        self.size = size
        self._bytes = bytes(size) if flags is None else flags

    @classmethod
    def of(cls, size: int, *several: Serials) -> SerialSet:
        """Return the set of those serials that are below `size`."""
        flags = bytearray(size)
        for serials in several:
            fits = not serials or max(serials) < size
            for serial in serials if fits else [serial for serial in serials if serial < size]:
                flags[serial] = 1
        return cls(size, flags)

    def __and__(self, other: SerialSet) -> SerialSet:
        return self._joined(int(self) & int(other))

    def __or__(self, other: SerialSet) -> SerialSet:
        return self._joined(int(self) | int(other))

    def __invert__(self) -> SerialSet:
        return self._joined(int(self) ^ int.from_bytes(b"\1" * self.size, "little"))

    def __int__(self) -> int:
        return int.from_bytes(self._bytes, "little")

    def __len__(self) -> int:
        """How many serials it knows of, in the set or not."""
        return self.size

    def __contains__(self, serial: int) -> bool:
        return 0 <= serial < self.size and bool(self._bytes[serial])

    def of_each(self, serials: Serials) -> Iterator[int]:
        """Yield 1 for each of `serials` that is in the set, else 0."""
        beyond = max(serials, default=0) + 1 - self.size
        flags = self._bytes if beyond <= 0 else self._bytes + bytes(beyond)
        return map(flags.__getitem__, serials)

    def among(self, serials: Serials) -> array[int]:
        """Return those of `serials` that are in the set, in their order."""
        return array("q", compress(serials, self.of_each(serials)))

    def serials(self) -> array[int]:
        """Return all that are in the set, ascending."""
        return array("q", compress(range(self.size), self._bytes))

    def _joined(self, number: int) -> SerialSet:
        return SerialSet(self.size, number.to_bytes(self.size, "little"))


@dataclass(frozen=True)
class Order:
    """Runs that have a field, by its value and their serial, ascending: numbers, then texts."""

    numbers: Serials = field(default_factory=lambda: array("q"))
    texts: Serials = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.numbers) + len(self.texts)

    def arrange(self, matching: SerialSet, *, descending: bool) -> array[int]:
        """Return the wanted runs: numbers before texts, those without the field last, whatever the direction."""
        numbers, texts = matching.among(self.numbers), matching.among(self.texts)
        rest: Serials = array("q")
        members = matching.serials()
        if len(members) > len(numbers) + len(texts):
            rest = (matching & ~SerialSet.of(matching.size, numbers, texts)).serials()
        arranged = array("q")
        for part in (numbers, texts, rest):
            arranged.extend(part[::-1] if descending else part)
        return arranged
