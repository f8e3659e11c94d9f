"""A filter of `core.filters` as a condition on rows of `runs`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ColumnElement, Select, Text, and_, exists, func, not_, or_, select, type_coerce

from runyard.core.filters import OPERATORS, PRESENT, Comparison, Filter, Negation, conjuncts
from runyard.store.base import MetricCondition
from runyard.store.schema import experiments, run_labels, run_metrics, runs
from runyard.store.text import clean, indexed

Condition = ColumnElement[bool]
LABELS = {"tags": "tag", "properties": "property", "params": "parameter"}
_metrics = run_metrics.alias("filtered_metrics")
_labels = run_labels.alias("filtered_labels")


def filter_condition(wanted: Filter) -> Condition:
    """Return the condition, never NULL, so that `not` turns it round."""
    if isinstance(wanted, Comparison):
        return _comparison(wanted)
    if isinstance(wanted, Negation):
        return not_(filter_condition(wanted.part))
    join = and_ if wanted.op == "and" else or_
    return join(*(filter_condition(part) for part in wanted.parts))


def narrow_by_filter(wanted: Filter | None) -> list[Select[Any]]:
    """Return selects of serials for those comparisons with labels that every run must fit and an index answers."""
    found: list[Select[Any]] = []
    for one in conjuncts(wanted):
        if one.field in LABELS and one.op in ("=", PRESENT):
            found.append(select(_labels.c.run_serial).where(_label(one)))
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
    return there if one.op == PRESENT else and_(there, OPERATORS[one.op](_labels.c.value, indexed(str(one.value))))


def _metric(one: Comparison) -> Condition:
    there = and_(_metrics.c.name == clean(one.key), _metrics.c.column == "", _metrics.c.last.is_not(None))
    return there if one.op == PRESENT else and_(there, OPERATORS[one.op](_metrics.c.last, one.value))


def _column(field: str) -> Any:
    if field == "status":
        return runs.c.status + ""  # its index would win on paper and lose here
    if field == "type":
        return runs.c.type
    document = type_coerce(runs.c.document, JSON)
    if field == "name":
        return document["display_name"].as_string()
    # The fraction is left out when it is zero: such a time would sort behind its own second.
    written = document["created_at"].as_string()
    fraction = func.replace(func.substr(written, 20), "+00:00", "", type_=Text).concat(".000000")
    return func.substr(written, 1, 19, type_=Text).concat(func.substr(fraction, 1, 7))


def _compared(column: Any, one: Comparison) -> Condition:
    value = one.value
    if isinstance(value, datetime):
        value = value.strftime("%Y-%m-%dT%H:%M:%S.%f")
    return and_(column.is_not(None), OPERATORS[one.op](column, clean(str(value))))
