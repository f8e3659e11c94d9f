"""RunSearch as SQL: one statement finds the serials, another reads their documents.

An order by a metric is read in three parts (numbers, NaN, runs without it), each along an index of its own, so that a
page of the best runs of 100,000 costs no sort of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import JSON, ColumnElement, Select, case, cast, exists, func, not_, or_, select

from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison
from runyard.core.records import Run
from runyard.store.base import RunSearch, SearchOrder
from runyard.store.sql.database import MAX_PARAMETERS, Session
from runyard.store.sql.query import shown_run, view_conditions
from runyard.store.sql.rows import get_workspace_id
from runyard.store.sql.schema import experiments, run_labels, run_metrics, runs
from runyard.store.text import MAX_INDEXED, clean, indexed

Condition = ColumnElement[bool]
LABELS = {"tags": "tag", "properties": "property", "params": "parameter"}  # field → kind of label
_FIELDS = {"tag": "tags", "property": "properties", "parameter": "parameters"}  # kind of label → field of Run
_LONG = len(indexed("x" * (MAX_INDEXED + 1)))  # length of what stands for a long text
_parents = runs.alias("parents")
_first = run_metrics.alias("first_metric")


def search_runs(session: Session, search: RunSearch) -> list[Run]:
    """Return the runs of a search. See RunStore.search_runs."""
    workspace_id = get_workspace_id(session, search.workspace)
    names = [clean(name) for name in search.experiments]
    known: list[int] = []
    for start in range(0, len(names), MAX_PARAMETERS // 2):
        part = names[start : start + MAX_PARAMETERS // 2]
        fits = (experiments.c.workspace_id == workspace_id, experiments.c.name.in_(part))
        known += [row[0] for row in session.select(select(experiments.c.id).where(*fits))]
    if not known or search.limit < 1:
        return []
    serials = _Search(session, search, workspace_id, known).serials()
    return _read(session, serials)


class _Search:
    def __init__(self, session: Session, search: RunSearch, workspace_id: int, experiment_ids: list[int]) -> None:
        self._session = session
        self._search = search
        self._workspace_id = workspace_id
        self._is_postgres = session.dialect.name == "postgresql"
        # `+ 0` keeps the database from an index that would win on paper and lose here.
        inside = (runs.c.experiment_id + 0).in_(experiment_ids)
        self._conditions: list[Condition] = [runs.c.workspace_id == workspace_id, inside, *view_conditions(search.view)]
        self._conditions += [self._condition(condition) for condition in search.conditions]

    def serials(self) -> list[int]:
        orders = self._search.orders
        if not orders or orders[0].field.name != "metrics":
            return self._window([self._ordered(select(runs.c.serial).where(*self._conditions), [], orders)])
        m, order = _first.c, orders[0]
        there = (m.run_serial == runs.c.serial, m.workspace_id == self._workspace_id)
        named = (m.name == clean(order.field.key), m.column == "")
        having = select(runs.c.serial).join_from(_first, runs, there[0]).where(*there, *named, *self._conditions)
        without = not_(exists(select(1).where(m.run_serial == runs.c.serial, *named, or_(_is_number(m), _is_nan(m)))))
        return self._window(
            [
                self._ordered(
                    having.where(_is_number(m)), [m.last.desc() if order.descending else m.last.asc()], orders[1:]
                ),
                self._ordered(having.where(_is_nan(m)), [], orders[1:]),
                self._ordered(select(runs.c.serial).where(*self._conditions, without), [], orders[1:]),
            ]
        )

    def _window(self, parts: Sequence[Select[Any]]) -> list[int]:
        """Return the serials of the window over the parts, which follow each other."""
        found: list[int] = []
        skip, limit = self._search.offset, self._search.limit
        for part in parts:
            rows = [row[0] for row in self._session.select(part.offset(skip).limit(limit - len(found)))]
            found += rows
            if len(found) == limit:
                break
            if rows:
                skip = 0
            elif skip:
                counted = select(func.count()).select_from(part.order_by(None).subquery())
                skip -= int(self._session.select(counted)[0][0])
        return found

    def _ordered(self, page: Select[Any], keys: list[Any], orders: Sequence[SearchOrder]) -> Select[Any]:
        for number, order in enumerate(orders):
            value: Any
            if order.field.name == "metrics":
                table = run_metrics.alias(f"order_{number}")
                named = (table.c.name == clean(order.field.key)) & (table.c.column == "")
                page = page.outerjoin(table, (table.c.run_serial == runs.c.serial) & named)
                value = table.c.last
                keys.append(case((_is_nan(table.c), 1), (value.is_(None), 2), else_=0))
            else:
                if order.field.name in LABELS:
                    labels = run_labels.alias(f"order_{number}")
                    named = (labels.c.kind == LABELS[order.field.name]) & (labels.c.key == indexed(order.field.key))
                    page = page.outerjoin(labels, (labels.c.run_serial == runs.c.serial) & named)
                    value = self._by_code(labels.c.value)
                else:
                    value = self._column(order.field.name, order.field.key)
                    value = value if order.field.name in ("start", "end") else self._by_code(value)
                keys.append(case((value.is_(None), 1), else_=0))
            keys.append(value.desc() if order.descending else value.asc())
        newest = runs.c.started_us.desc()
        newest = newest.nulls_last() if self._is_postgres else newest
        return page.order_by(*keys, newest, self._by_code(runs.c.id))

    def _condition(self, condition: Comparison) -> Condition:
        if condition.field == "metrics":
            return _metric(condition)
        if condition.field in LABELS:
            return self._label(condition)
        column = self._column(condition.field, condition.key)
        if condition.op in (PRESENT, "absent"):
            is_absent: Condition = column.is_(None)
            return is_absent if condition.op == "absent" else not_(is_absent)
        return self._compared(column, condition)

    def _column(self, field: str, key: str) -> Any:
        columns: dict[str, Any] = {
            "name": func.coalesce(runs.c.name, ""),
            "user": func.coalesce(runs.c.submitted_by, ""),
            "status": runs.c.status,
            "start": (runs.c.started_us + 500).op("/")(1000),
            "end": (runs.c.ended_us + 500).op("/")(1000),
            "parent": select(_parents.c.id).where(_parents.c.serial == runs.c.parent_serial).scalar_subquery(),
        }
        if field == "id":
            return key + runs.c.id if key else runs.c.id
        return columns[field]

    def _label(self, condition: Comparison) -> Condition:
        c = run_labels.c
        there: list[Condition] = [c.kind == LABELS[condition.field], c.key == indexed(condition.key)]
        if condition.op == "absent":
            return not_(exists(select(1).where(c.run_serial == runs.c.serial, *there)))
        if condition.op in ("like", "ilike"):
            exact = self._exact(LABELS[condition.field], condition.key)
            value = case((func.length(c.value) == _LONG, exact), else_=c.value)
            there.append(self._compared(value, condition))
        elif condition.op != PRESENT:
            there.append(OPERATORS[condition.op](c.value, indexed(str(condition.value))))
        return exists(select(1).where(c.run_serial == runs.c.serial, *there))

    def _exact(self, kind: str, key: str) -> Any:
        """The whole text of a label, of which a long one's row has the beginning only."""
        if self._is_postgres:
            return cast(runs.c.document, JSON)[_FIELDS[kind]][key].as_string()
        each = func.json_each(runs.c.document, f"$.{_FIELDS[kind]}").table_valued("key", "value", name="exact")
        return select(each.c.value).where(each.c.key == key).scalar_subquery()

    def _compared(self, column: Any, condition: Comparison) -> Condition:
        value = condition.value
        compared: Condition
        if condition.op in ("in", "not in"):
            assert isinstance(value, tuple)
            inside: Condition = column.in_([clean(text) for text in value])
            return inside if condition.op == "in" else not_(inside)
        if condition.op == "like":
            pattern = clean(str(value))
            compared = column.like(_escaped(pattern)) if self._is_postgres else column.op("GLOB")(_glob(pattern))
            return compared
        if condition.op == "ilike":
            pattern = clean(str(value))  # SQLite's LIKE is blind to the case of ASCII letters, and has no escapes
            compared = column.op("ILIKE")(_escaped(pattern)) if self._is_postgres else column.op("LIKE")(pattern)
            return compared
        compared = OPERATORS[condition.op](column, indexed(value) if isinstance(value, str) else value)
        return compared

    def _by_code(self, column: Any) -> Any:
        return column.collate("C") if self._is_postgres else column


def _metric(condition: Comparison) -> Condition:
    m = run_metrics.alias("searched").c
    named = (m.run_serial == runs.c.serial, m.name == clean(condition.key), m.column == "")
    if condition.op in (PRESENT, "absent"):
        there = exists(select(1).where(*named, or_(_is_number(m), _is_nan(m))))
        return there if condition.op == PRESENT else not_(there)
    fits = OPERATORS[condition.op](m.last, condition.value)
    return exists(select(1).where(*named, or_(fits, _is_nan(m)) if condition.op == "!=" else fits))


def _is_number(m: Any) -> Condition:
    found: Condition = m.last.is_not(None)
    return found


def _is_nan(m: Any) -> Condition:
    found: Condition = m.last.is_(None) & (m.last_value == "NaN")
    return found


def _glob(pattern: str) -> str:
    wild = {"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"}
    return "".join(wild.get(letter, letter) for letter in pattern)


def _escaped(pattern: str) -> str:
    return pattern.replace("\\", "\\\\")


def _read(session: Session, serials: list[int]) -> list[Run]:
    found: dict[int, Run] = {}
    for start in range(0, len(serials), MAX_PARAMETERS):
        part = serials[start : start + MAX_PARAMETERS]
        read = select(runs.c.serial, runs.c.document, runs.c.purge_us).where(runs.c.serial.in_(part))
        found.update((row.serial, shown_run(row.document, row.purge_us)) for row in session.select(read))
    return [found[serial] for serial in serials]
