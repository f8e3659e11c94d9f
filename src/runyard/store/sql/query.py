"""Pages of runs, fast at 100,000 runs whatever the filter.

A page is read along an index in the order asked for, testing each run against the conditions; that is fast when many
runs match. So each condition is first asked for its matches, up to FEW: when one has that few, only those runs are
looked at. `column + 0` keeps the database from an index that would win on paper and lose here.

A filter of `core.filters` as a condition on rows of `runs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, exists, func, not_, or_, select

from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Filter, Negation, conjuncts
from runyard.core.records import Run
from runyard.store.base import MetricCondition, RunPage, RunQuery
from runyard.store.rules import no_view
from runyard.store.sql.database import MAX_PARAMETERS, Session
from runyard.store.sql.rows import find_experiment_id, find_run_row, get_workspace_id, run_of
from runyard.store.sql.schema import experiments, run_labels, run_metrics, runs
from runyard.store.text import clean, from_microseconds, indexed, to_microseconds

Condition = ColumnElement[bool]
LABELS = {"tags": "tag", "properties": "property", "params": "parameter"}
_metrics = run_metrics.alias("filtered_metrics")
_filtered_labels = run_labels.alias("filtered_labels")
_COLUMNS = {"name": runs.c.name, "target": runs.c.target}
FEW = MAX_PARAMETERS
MAX_PAGE = 1_000_000
METRIC_ORDER = "metrics."


def filter_condition(where: Filter) -> Condition:
    """Return the condition, never NULL, so that `not` turns it round. `duration` is for table.py to answer."""
    if isinstance(where, Comparison):
        return _comparison(where)
    if isinstance(where, Negation):
        return not_(filter_condition(where.part))
    join = and_ if where.op == "and" else or_
    return join(*(filter_condition(part) for part in where.parts))


def narrow_by_filter(where: Filter | None, workspace_id: int) -> list[Select[Any]]:
    """Return selects of serials for those comparisons that every run must fit and an index answers."""
    selects: list[Select[Any]] = []
    for comparison in conjuncts(where):
        if comparison.field in LABELS and comparison.op != "!=":
            selects.append(select(_filtered_labels.c.run_serial).where(_label(comparison)))
        elif comparison.field in _COLUMNS and comparison.op == "=":
            equal = _COLUMNS[comparison.field] == indexed(str(comparison.value))
            selects.append(select(runs.c.serial).where(runs.c.workspace_id == workspace_id, equal))
    return selects


def span_of_times(where: Filter | None, workspace_id: int) -> list[Select[Any]]:
    """Return selects of the first and last serial for the times that every run must fit.

    Runs come in the order of their serials and, unless somebody moved the clock, of their times.
    """
    spans: list[Select[Any]] = []
    for comparison in conjuncts(where):
        if isinstance(comparison.value, datetime) and comparison.op != "!=":
            fits = OPERATORS[comparison.op](runs.c.created_us, to_microseconds(comparison.value))
            span = select(func.min(runs.c.serial), func.max(runs.c.serial))
            spans.append(span.where(runs.c.workspace_id == workspace_id, fits))
    return spans


def metric_conditions(where: Filter | None) -> list[MetricCondition]:
    """Return comparisons with metrics that every run must fit: a list in a metric's order starts from them."""
    return [
        MetricCondition(comparison.key, comparison.op, comparison.value)
        for comparison in conjuncts(where)
        if comparison.field == "metrics" and isinstance(comparison.value, float)
    ]


def _comparison(comparison: Comparison) -> Condition:
    if comparison.field in LABELS:
        return exists(select(1).where(_filtered_labels.c.run_serial == runs.c.serial, _label(comparison)))
    if comparison.field == "metrics":
        return exists(select(1).where(_metrics.c.run_serial == runs.c.serial, _compared_metric(comparison)))
    if comparison.field == "experiment":
        named = select(experiments.c.id).where(experiments.c.name == comparison.value)
        inside: Condition = (runs.c.experiment_id + 0).in_(named)
        return inside if comparison.op == "=" else not_(inside)
    return _compared(_column(comparison.field), comparison)


def _label(comparison: Comparison) -> Condition:
    there = and_(_filtered_labels.c.kind == LABELS[comparison.field], _filtered_labels.c.key == indexed(comparison.key))
    if comparison.op == PRESENT:
        return there
    if isinstance(comparison.value, float):
        return and_(
            there,
            _filtered_labels.c.number.is_not(None),
            OPERATORS[comparison.op](_filtered_labels.c.number, comparison.value),
        )
    return and_(there, OPERATORS[comparison.op](_filtered_labels.c.value, indexed(str(comparison.value))))


def _compared_metric(comparison: Comparison) -> Condition:
    there = and_(_metrics.c.name == clean(comparison.key), _metrics.c.column == "", _metrics.c.last.is_not(None))
    return (
        there if comparison.op == PRESENT else and_(there, OPERATORS[comparison.op](_metrics.c.last, comparison.value))
    )


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


def _compared(column: Any, comparison: Comparison) -> Condition:
    value = comparison.value
    if comparison.op == PRESENT:
        return and_(column.is_not(None), column != "")
    if isinstance(value, datetime):
        value = to_microseconds(value)
    elif not isinstance(value, float):
        value = indexed(str(value))
    return and_(column.is_not(None), OPERATORS[comparison.op](column, value))


@dataclass(frozen=True)
class _Scope:
    """A query with its names looked up. `few`: the only runs that can match, where they are known to be few."""

    query: RunQuery
    workspace_id: int
    experiment_id: int | None
    parent_serial: int | None
    few: frozenset[int] | None = None
    first: int | None = None  # no run before this one, and none after `last`, can match
    last: int | None = None

    @property
    def top_only(self) -> bool:
        return self.parent_serial is None and not self.query.include_children


def find_page(session: Session, query: RunQuery) -> RunPage:
    """Return a page in order of creation, or of a metric; table.py knows the other orders."""
    query = replace(query, metrics=[*query.metrics, *metric_conditions(query.where)])
    scope = _look_up(session, query)
    if scope is None or (scope.few is not None and not scope.few):
        return RunPage([], None)
    if query.order == "created":
        return _by_creation(session, scope, query.cursor)
    return _by_metric(session, scope, clean(query.order.removeprefix(METRIC_ORDER)))


def _look_up(session: Session, query: RunQuery) -> _Scope | None:
    workspace_id = get_workspace_id(session, query.workspace)
    experiment_id = parent_serial = None
    if query.experiment is not None:
        experiment_id = find_experiment_id(session, workspace_id, query.experiment)
        if experiment_id is None:
            return None
    if query.parent_id is not None:
        parent = find_run_row(session, query.parent_id)
        if parent is None:
            return None
        parent_serial = parent.serial
    scope = _Scope(query, workspace_id, experiment_id, parent_serial)
    for span in span_of_times(query.where, workspace_id):
        ends: Any = session.select(span)[0]
        first, last = ends
        if first is None:
            return None
        scope = replace(scope, first=max(first, scope.first or first), last=min(last, scope.last or last))
    return replace(scope, few=_find_few(session, scope))


def _find_few(session: Session, scope: _Scope) -> frozenset[int] | None:
    few: frozenset[int] | None = None
    for matches in _narrow(scope):
        serials = [row[0] for row in session.select(matches.limit(FEW + 1))]
        if len(serials) <= FEW:
            few = frozenset(serials) if few is None else few & frozenset(serials)
    return few


def _narrow(scope: _Scope) -> list[Select[Any]]:
    """Return a select of runs' serials for each condition that an index answers."""
    query = scope.query
    selects: list[Select[Any]] = [select(run_labels.c.run_serial).where(condition) for condition in _labels(query)]
    if query.view == "deleted":
        selects.append(select(runs.c.serial).where(runs.c.purge_us.is_not(None)))
    for wanted in query.metrics:
        if wanted.op != "!=":
            in_workspace = run_metrics.c.workspace_id == scope.workspace_id
            selects.append(select(run_metrics.c.run_serial).where(in_workspace, _metric(wanted)))
    selects += narrow_by_filter(query.where, scope.workspace_id)
    if query.statuses:
        statuses = [status.value for status in query.statuses]
        selects.append(
            select(runs.c.serial).where(runs.c.workspace_id == scope.workspace_id, runs.c.status.in_(statuses))
        )
    if scope.parent_serial is not None:
        selects.append(select(runs.c.serial).where(runs.c.parent_serial == scope.parent_serial))
    return selects


def _by_creation(session: Session, scope: _Scope, cursor: str | None) -> RunPage:
    after = None if cursor is None else _read_cursor(cursor, "c")[0]
    rows = _select_created(session, scope, [], after, _limit(scope) + 1)
    return _page(rows, scope, lambda row: f"c{row.serial}")


def _by_metric(session: Session, scope: _Scope, name: str) -> RunPage:
    cursor, limit = scope.query.cursor, _limit(scope)
    rows: list[Row[Any]] = []
    if cursor is None or not cursor.startswith("n"):
        after = None if cursor is None else _read_cursor(cursor, "m")
        rows += _select_page(session, scope, _metric_page(scope, name, after).limit(limit + 1))
        cursor = None
    # A condition on the metric itself leaves no run without it.
    if len(rows) <= limit and all(clean(condition.name) != name for condition in scope.query.metrics):
        after_serial = None if cursor is None else _read_cursor(cursor, "n")[0]
        without = ~_has_number(name)
        rows += _select_created(session, scope, [without], after_serial, limit + 1 - len(rows))
    return _page(rows, scope, _metric_cursor)


def _select_created(
    session: Session, scope: _Scope, more: list[Condition], after: int | None, limit: int
) -> Sequence[Row[Any]]:
    conditions = _base(scope) + _tests(scope, skip=None) + more
    if after is not None:
        conditions.append(runs.c.serial < after if scope.query.descending else runs.c.serial > after)
    order = runs.c.serial.desc() if scope.query.descending else runs.c.serial.asc()
    page = select(runs.c.serial, runs.c.document, runs.c.purge_us).where(*conditions)
    return _select_page(session, scope, page.order_by(order).limit(limit))


def _select_page(session: Session, scope: _Scope, page: Select[Any]) -> Sequence[Row[Any]]:
    """Return rows with documents, up to the first one that is too much for the page."""
    left = scope.query.max_bytes
    if left is None:
        return session.select(page)
    rows: list[Row[Any]] = []
    for row in session.iterate(page):
        rows.append(row)
        left -= len(row.document)
        if left < 0 and len(rows) > 1:
            break
    return rows


def _metric_page(scope: _Scope, name: str, after: tuple[int, float] | None) -> Select[Any]:
    m, descending = run_metrics.c, scope.query.descending
    keyed = (m.workspace_id if scope.few is None else m.workspace_id + 0) == scope.workspace_id
    conditions: list[Condition] = [keyed, m.name == name, m.column == "", m.last.is_not(None)]
    if scope.few is not None:
        conditions.append(m.run_serial.in_(scope.few))
    if scope.experiment_id is not None:
        conditions.append(m.experiment_id == scope.experiment_id)
    if scope.top_only:
        conditions.append(m.child == 0)
    conditions += [_compare(condition) for condition in scope.query.metrics if clean(condition.name) == name]
    if after is not None:
        conditions += _after(after, descending)
    conditions += _run_only(scope) + _tests(scope, skip=name)
    order = [m.last.desc(), m.run_serial.desc()] if descending else [m.last.asc(), m.run_serial.asc()]
    columns = (runs.c.serial, runs.c.document, runs.c.purge_us, m.last)
    joined = select(*columns).join_from(run_metrics, runs, runs.c.serial == m.run_serial)
    return joined.where(*conditions).order_by(*order)


def _after(cursor: tuple[int, float], descending: bool) -> list[Condition]:
    serial, last = cursor
    m = run_metrics.c
    if descending:
        return [m.last <= last, or_(m.last < last, and_(m.last == last, m.run_serial < serial))]
    return [m.last >= last, or_(m.last > last, and_(m.last == last, m.run_serial > serial))]


def _base(scope: _Scope) -> list[Condition]:
    """Return the conditions on columns of `runs` that an index has."""
    aside = 0 if scope.few is not None else None
    conditions = [_on(runs.c.workspace_id, aside) == scope.workspace_id]
    if scope.experiment_id is not None:
        conditions = [_on(runs.c.experiment_id, aside) == scope.experiment_id]
    if scope.few is not None:
        conditions.append(runs.c.serial.in_(scope.few))
    elif scope.first is not None and scope.last is not None:
        conditions.append(runs.c.serial.between(scope.first, scope.last))
    if scope.top_only:
        conditions.append(runs.c.child == 0)
    return conditions + _run_only(scope)


def _run_only(scope: _Scope) -> list[Condition]:
    query = scope.query
    conditions = view_conditions(query.view)
    if scope.parent_serial is not None:
        conditions.append(_on(runs.c.parent_serial, 0 if scope.few is not None else None) == scope.parent_serial)
    if query.statuses:
        # Their index is for finding few; a page of many runs is read in order.
        conditions.append((runs.c.status + "").in_([status.value for status in query.statuses]))
    if query.type is not None:
        conditions.append(runs.c.type == indexed(query.type))
    return conditions


def view_conditions(view: str) -> list[Condition]:
    """Return what a view asks of the rows of `runs`."""
    if view == "deleted":
        return [runs.c.purge_us.is_not(None)]
    if view == "all":
        return [runs.c.purge_us.is_(None)]
    if view in ("active", "archived"):
        return [runs.c.archived == int(view == "archived"), runs.c.purge_us.is_(None)]
    raise no_view(view)


def _tests(scope: _Scope, *, skip: str | None) -> list[Condition]:
    """Return conditions on labels and metrics, tested run by run."""
    query = scope.query
    tests = [
        exists(select(1).where(run_labels.c.run_serial == runs.c.serial, condition)) for condition in _labels(query)
    ]
    for compared in query.metrics:
        if clean(compared.name) != skip:
            tests.append(exists(select(1).where(_other.c.run_serial == runs.c.serial, _metric(compared, _other))))
    return [*tests, filter_condition(query.where)] if query.where is not None else list(tests)


def _labels(query: RunQuery) -> list[Condition]:
    conditions: list[Condition] = []
    for kind, labels in (("tag", query.tags), ("property", query.properties), ("parameter", query.parameters)):
        for key, value in labels.items():
            condition = and_(run_labels.c.kind == kind, run_labels.c.key == indexed(key))
            conditions.append(condition if value is None else and_(condition, run_labels.c.value == indexed(value)))
    return conditions


_other = run_metrics.alias("other")


def _metric(condition: MetricCondition, table: Any = run_metrics) -> Condition:
    return and_(table.c.name == clean(condition.name), table.c.column == "", _compare(condition, table))


def _compare(condition: MetricCondition, table: Any = run_metrics) -> Condition:
    compare = OPERATORS.get(condition.op)
    if compare is None:
        raise InvalidArgument(
            f"A metric cannot be compared with {condition.op!r}.", hint=f"Use one of {' '.join(OPERATORS)}."
        )
    compared: Condition = compare(table.c.last, float(condition.value))
    return compared


def _has_number(name: str) -> Condition:
    m = _other.c
    return exists(select(1).where(m.run_serial == runs.c.serial, m.name == name, m.column == "", m.last.is_not(None)))


def _on(column: Any, aside: int | None) -> Any:
    return column if aside is None else column + aside


def _limit(scope: _Scope) -> int:
    return max(1, min(scope.query.limit, MAX_PAGE))


def _page(rows: Sequence[Row[Any]], scope: _Scope, cursor: Any) -> RunPage:
    limit = _limit(scope)
    shown = rows[: count_fitting([row.document for row in rows[:limit]], scope.query.max_bytes)]
    runs = [shown_run(row.document, row.purge_us) for row in shown]
    return RunPage(runs, cursor(shown[-1]) if len(rows) > len(shown) else None)


def count_fitting(documents: Sequence[str], max_bytes: int | None) -> int:
    """Return how many of the documents fit on a page, at least one."""
    size = 0
    for count, document in enumerate(documents):
        size += len(document)
        if count and max_bytes is not None and size > max_bytes:
            return count
    return len(documents)


def shown_run(document: str, purge_us: int | None) -> Run:
    """Return the run of a row; a hidden one tells until when it can be restored."""
    run = run_of(document)
    return run if purge_us is None else replace(run, undo_until=from_microseconds(purge_us))


def _metric_cursor(row: Row[Any]) -> str:
    last = row._mapping.get("last")
    return f"n{row.serial}" if last is None else f"m{row.serial}/{float(last).hex()}"


def _read_cursor(cursor: str, letter: str) -> tuple[int, float]:
    try:
        if cursor[:1] != letter:
            raise ValueError(cursor)
        serial, _, last = cursor[1:].partition("/")
        if len(serial) > 18:
            raise ValueError(serial)
        return int(serial), float.fromhex(last) if last else 0.0
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"The cursor {cursor[:80]!r} is not one of this list's.",
            hint="Take `next` of the page before, with the same order.",
        ) from error
