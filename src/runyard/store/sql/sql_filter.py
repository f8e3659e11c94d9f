"""A filter of `core.filters` as a condition on rows of `runs`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, not_, or_, select

from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Filter, Negation, conjuncts
from runyard.store.base import MetricCondition
from runyard.store.sql.schema import experiments, run_labels, run_metrics, runs
from runyard.store.text import clean, indexed, to_microseconds

Condition = ColumnElement[bool]
LABELS = {"tags": "tag", "properties": "property", "params": "parameter"}
_metrics = run_metrics.alias("filtered_metrics")
_labels = run_labels.alias("filtered_labels")
_COLUMNS = {"name": runs.c.name, "target": runs.c.target}


def filter_condition(wanted: Filter) -> Condition:
    """Return the condition, never NULL, so that `not` turns it round. `duration` is for sql_table.py to answer."""
    if isinstance(wanted, Comparison):
        return _comparison(wanted)
    if isinstance(wanted, Negation):
        return not_(filter_condition(wanted.part))
    join = and_ if wanted.op == "and" else or_
    return join(*(filter_condition(part) for part in wanted.parts))


def narrow_by_filter(wanted: Filter | None, workspace_id: int) -> list[Select[Any]]:
    """Return selects of serials for those comparisons that every run must fit and an index answers."""
    found: list[Select[Any]] = []
    for one in conjuncts(wanted):
        if one.field in LABELS and one.op != "!=":
            found.append(select(_labels.c.run_serial).where(_label(one)))
        elif one.field in _COLUMNS and one.op == "=":
            equal = _COLUMNS[one.field] == indexed(str(one.value))
            found.append(select(runs.c.serial).where(runs.c.workspace_id == workspace_id, equal))
    return found


def span_of_times(wanted: Filter | None, workspace_id: int) -> list[Select[Any]]:
    """Return selects of the first and last serial for the times that every run must fit.

    Runs come in the order of their serials and, unless somebody moved the clock, of their times.
    """
    found: list[Select[Any]] = []
    for one in conjuncts(wanted):
        if isinstance(one.value, datetime) and one.op != "!=":
            fits = OPERATORS[one.op](runs.c.created_us, to_microseconds(one.value))
            span = select(func.min(runs.c.serial), func.max(runs.c.serial))
            found.append(span.where(runs.c.workspace_id == workspace_id, fits))
    return found


def metric_conditions(wanted: Filter | None) -> list[MetricCondition]:
    """Return comparisons with metrics that every run must fit: a list in a metric's order starts from them."""
    return [
        MetricCondition(one.key, one.op, one.value)
        for one in conjuncts(wanted)
        if one.field == "metrics" and isinstance(one.value, float)
    ]


def _comparison(one: Comparison) -> Condition:
    if one.field in LABELS:
        return exists(select(1).where(_labels.c.run_serial == runs.c.serial, _label(one)))
    if one.field == "metrics":
        return exists(select(1).where(_metrics.c.run_serial == runs.c.serial, _metric(one)))
    if one.field == "experiment":
        named = select(experiments.c.id).where(experiments.c.name == one.value)
        inside: Condition = (runs.c.experiment_id + 0).in_(named)
        return inside if one.op == "=" else not_(inside)
    return _compared(_column(one.field), one)


def _label(one: Comparison) -> Condition:
    there = and_(_labels.c.kind == LABELS[one.field], _labels.c.key == indexed(one.key))
    if one.op == PRESENT:
        return there
    if isinstance(one.value, float):
        return and_(there, _labels.c.number.is_not(None), OPERATORS[one.op](_labels.c.number, one.value))
    return and_(there, OPERATORS[one.op](_labels.c.value, indexed(str(one.value))))


def _metric(one: Comparison) -> Condition:
    there = and_(_metrics.c.name == clean(one.key), _metrics.c.column == "", _metrics.c.last.is_not(None))
    return there if one.op == PRESENT else and_(there, OPERATORS[one.op](_metrics.c.last, one.value))


def _column(field: str) -> Any:
    # An index of its own would win on paper and lose here.
    columns = {
        "status": runs.c.status + "",
        "type": runs.c.type + "",
        "target": runs.c.target + "",
        "name": runs.c.name + "",
        "user": runs.c.submitted_by + "",
        "number": runs.c.number + 0,
        "created": runs.c.created_us + 0,
    }
    return columns[field]


def _compared(column: Any, one: Comparison) -> Condition:
    value = one.value
    if one.op == PRESENT:
        return and_(column.is_not(None), column != "")
    if isinstance(value, datetime):
        value = to_microseconds(value)
    elif not isinstance(value, float):
        value = indexed(str(value))
    return and_(column.is_not(None), OPERATORS[one.op](column, value))
