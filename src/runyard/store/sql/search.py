"""RunSearch as SQL: one statement finds the serials, another reads their documents.

Each condition that an index answers is counted first, up to MANY. The serials of those that leave fewer runs are
fetched, the fewest first, and intersected here, which is far cheaper than to look at the runs. Few runs are looked at
and sorted. Otherwise a page is read along the index of its first order, in parts: for a metric the numbers, NaN, and
the runs without it. So a page of the best runs of 100,000 costs no sort of all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    ColumnElement,
    Select,
    and_,
    any_,
    case,
    cast,
    exists,
    func,
    literal,
    not_,
    or_,
    select,
)

from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Field
from runyard.core.formats.run_inputs import DatasetInput, datasets_of
from runyard.core.records import GIT_TAGS, MLFLOW_RUN, USER_TAG, Run
from runyard.store.base import RunSearch, SearchOrder
from runyard.store.sql.database import MAX_PARAMETERS, Session
from runyard.store.sql.query import shown_run, view_conditions
from runyard.store.sql.rows import DATASET, dataset_label, get_workspace_id
from runyard.store.sql.schema import experiments, run_labels, run_metrics, runs
from runyard.store.text import MAX_INDEXED, clean, indexed

Condition = ColumnElement[bool]
LABELS = {"tags": "tag", "properties": "property", "params": "parameter"}  # field → kind of label
MANY = 20_000  # a page in its order finds a hundred runs sooner than so many are intersected
SIZES = ("=", "<", "<=", ">", ">=")
LONG = len(indexed("x" * (MAX_INDEXED + 1)))  # length of what stands for a long text
_FEW = 500  # further conditions are tested on so few runs
_MS_US = 1000
_GLOB = {"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"}
_FIELDS = {"tag": "tags", "property": "properties", "parameter": "parameters"}  # kind of label → field of Run
_parents = runs.alias("parents")
_first = run_metrics.alias("first_metric")
_told = run_labels.alias("told_user")
_told_user = (  # see Run.user
    select(_told.c.value)
    .where(_told.c.run_serial == runs.c.serial, _told.c.kind == "tag", _told.c.key == USER_TAG)
    .where(runs.c.type == MLFLOW_RUN, _told.c.value != "")
    .scalar_subquery()
)
_first_label = run_labels.alias("first_label")


@dataclass(frozen=True)
class Narrowing:
    """Runs that a part of a search leaves. `condition` fits all of them; None: not those alone, or no condition's."""

    serials: Select[Any]
    condition: Comparison | None = None
    is_scope: bool = False  # all runs of the experiments and the view


@dataclass(frozen=True)
class Candidates:
    """The only runs that can fit, all of them by the conditions in `met`."""

    serials: list[int]  # ascending
    met: list[Narrowing]


def search_runs(session: Session, search: RunSearch, *, many: int = MANY) -> list[Run]:
    """Return the runs of a search. See RunStore.search_runs. `many`: of find_candidates."""
    workspace_id = get_workspace_id(session, search.workspace)
    ids = [clean(id) for id in search.experiment_ids]
    known: dict[int, bool] = {}  # its id: whether it is archived
    for start in range(0, len(ids), MAX_PARAMETERS // 2):
        part = ids[start : start + MAX_PARAMETERS // 2]
        fits = (experiments.c.workspace_id == workspace_id, experiments.c.public_id.in_(part))
        rows = session.select(select(experiments.c.id, experiments.c.archived).where(*fits))
        known.update((row.id, row.archived > 0) for row in rows)
    if search.view == "active":
        known = {id: is_archived for id, is_archived in known.items() if not is_archived}
    if not known or search.limit < 1:
        return []
    candidates = find_candidates(session, search, workspace_id, known, many=many)
    serials = _Search(session, search, workspace_id, known, candidates).serials()
    return _read(session, serials)


def list_datasets(
    session: Session, workspace: str, experiment_ids: Sequence[str], limit: int
) -> list[tuple[str, DatasetInput]]:
    """Return what runs of these experiments read. See RunStore.list_datasets."""
    workspace_id = get_workspace_id(session, workspace)
    c, first = run_labels.c, func.min(run_labels.c.run_serial).label("first_serial")
    wanted: Select[Any] = (
        select(experiments.c.public_id, c.key, first)
        .join_from(run_labels, runs, runs.c.serial == c.run_serial)
        .join(experiments, experiments.c.id == runs.c.experiment_id)
        .where(
            c.kind == DATASET,
            runs.c.purge_us.is_(None),
            experiments.c.workspace_id == workspace_id,
            experiments.c.public_id.in_([clean(id) for id in experiment_ids]),
        )
        .group_by(experiments.c.public_id, c.key)
        .order_by(first, c.key.collate("C") if session.dialect.name == "postgresql" else c.key)
        .limit(limit)
    )
    rows: list[tuple[str, str, int]] = [(row.public_id, row.key, row.first_serial) for row in session.select(wanted)]
    found = {run.id: run for run in _read(session, list(dict.fromkeys(row[2] for row in rows)))}
    known = {
        (run.experiment_id, indexed(dataset_label(dataset))): dataset
        for run in reversed(found.values())
        for dataset in reversed(datasets_of(run.properties))
    }
    return [(row[0], known[row[0], row[1]]) for row in rows]


class _Search:
    """`_candidates`: the only runs that can fit, where the indexes of the conditions name them."""

    def __init__(
        self,
        session: Session,
        search: RunSearch,
        workspace_id: int,
        experiment_ids: Mapping[int, bool],
        candidates: Candidates | None,
    ) -> None:
        self._session = session
        self._search = search
        self._workspace_id = workspace_id
        self._is_postgres = session.dialect.name == "postgresql"
        self._candidates = candidates
        met = [] if candidates is None else candidates.met
        left = [each for each in search.conditions if all(each is not narrowing.condition for narrowing in met)]
        # `+ 0` keeps the database from an index that would win on paper and lose here.
        self._conditions: list[Condition] = []
        if not any(narrowing.is_scope for narrowing in met):
            self._conditions += _scope_conditions(runs.c.experiment_id + 0, experiment_ids, search.view)
        self._conditions += [self._condition(condition) for condition in left]

    def serials(self) -> list[int]:
        search, candidates = self._search, self._candidates
        first = search.orders[0] if search.orders else SearchOrder(Field("start"), True)
        has_index = first.field.name in ("metrics", "start") or (first.field.name in LABELS and not self._is_postgres)
        if candidates is not None:
            if not candidates.serials:
                return []
            if not has_index or self._is_few(len(candidates.serials)):
                among = _is_one_of(self._session, runs.c.serial, candidates.serials)
                return self._window([self._ordered(select(runs.c.serial).where(among, *self._conditions), [])])
        if first.field.name == "metrics":
            return self._window(self._metric_parts(first))
        if first.field.name == "start":
            return self._window(self._start_parts(first))
        if has_index:
            return self._window(self._label_parts(first))
        page = select(runs.c.serial).where(runs.c.workspace_id == self._workspace_id, *self._conditions)
        return self._window([self._ordered(page, [])])

    def _is_few(self, count: int) -> bool:
        """Whether it is less work to look at so many candidates than to read runs in order until enough fit."""
        last = self._session.scalars(select(func.max(runs.c.serial)))[0] or 0
        return count * count <= (self._search.offset + self._search.limit) * int(last)

    def _among(self, serial: Any) -> list[Condition]:
        """The condition that a row of an order's index is of a candidate."""
        return [] if self._candidates is None else [_is_one_of(self._session, serial + 0, self._candidates.serials)]

    def _metric_parts(self, order: SearchOrder) -> list[Select[Any]]:
        """Runs with a number, those with NaN, those without the metric."""
        m = _first.c
        there = (m.run_serial == runs.c.serial, m.workspace_id == self._workspace_id)
        named = (m.name == clean(order.field.key), m.column == "")
        having = select(runs.c.serial).join_from(_first, runs, there[0])
        having = having.where(*there, *named, *self._among(m.run_serial), *self._conditions)
        without = not_(exists(select(1).where(m.run_serial == runs.c.serial, *named, or_(_is_number(m), _is_nan(m)))))
        bounds = [
            OPERATORS[each.op](m.latest, each.value)
            for each in self._search.conditions
            if (each.field, clean(each.key)) == ("metrics", clean(order.field.key)) and each.op in SIZES
        ]
        return [
            self._ordered(having.where(_is_number(m), *bounds), [_directed(m.latest, order)], 1),
            self._ordered(having.where(_is_nan(m)), [], 1),
            self._ordered(self._all().where(without), [], 1),
        ]

    def _label_parts(self, order: SearchOrder) -> list[Select[Any]]:
        """Runs with the label, those without."""
        c = _first_label.c
        there = (c.run_serial == runs.c.serial, *_named_label(c, order))
        having = select(runs.c.serial).join_from(_first_label, runs, there[0])
        having = having.where(*there, *self._among(c.run_serial), *self._conditions)
        return [
            self._ordered(having, [_directed(c.value, order)], 1),
            self._ordered(self._all().where(not_(exists(select(1).where(*there)))), [], 1),
        ]

    def _start_parts(self, order: SearchOrder) -> list[Select[Any]]:
        """Runs that started, those that did not."""
        started = runs.c.started_us
        spans = [_compared_start(each) for each in self._search.conditions if each.field == "start"]
        bounds = [span for span in spans if span is not None]
        return [
            self._ordered(self._all().where(started.is_not(None), *bounds), [_directed(started, order)], 1),
            self._ordered(self._all().where(started.is_(None)), [], 1),
        ]

    def _all(self) -> Select[Any]:
        mine = runs.c.workspace_id == self._workspace_id
        return select(runs.c.serial).where(mine, *self._among(runs.c.serial), *self._conditions)

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

    def _ordered(self, page: Select[Any], keys: list[Any], known: int = 0) -> Select[Any]:
        """Order by these keys, then by the search's orders but the first `known`."""
        for number, order in enumerate(self._search.orders[known:]):
            value: Any
            if order.field.name == "metrics":
                table = run_metrics.alias(f"order_{number}")
                named = (table.c.name == clean(order.field.key)) & (table.c.column == "")
                page = page.outerjoin(table, (table.c.run_serial == runs.c.serial) & named)
                value = table.c.latest
                keys.append(case((_is_nan(table.c), 1), (value.is_(None), 2), else_=0))
            else:
                if order.field.name in LABELS:
                    labels = run_labels.alias(f"order_{number}")
                    there = and_(labels.c.run_serial == runs.c.serial, *_named_label(labels.c, order))
                    page = page.outerjoin(labels, there)
                    value = self._by_code(labels.c.value)
                else:
                    value = self._column(order.field.name, order.field.key)
                    if order.field.name == "start":
                        value = runs.c.started_us
                    elif order.statuses:
                        ranks = [(value.in_(group), rank) for rank, group in enumerate(order.statuses)]
                        value = case(*ranks, else_=len(ranks))
                    elif order.field.name != "end":
                        value = self._by_code(value)
                keys.append(case((value.is_(None), 1), else_=0))
            keys.append(_directed(value, order))
        newest = runs.c.started_us.desc()
        newest = newest.nulls_last() if self._is_postgres else newest
        return page.order_by(*keys, newest, self._by_code(runs.c.id))

    def _condition(self, condition: Comparison) -> Condition:
        if condition.field == "metrics":
            return _metric(condition)
        if condition.field in LABELS:
            return self._label(condition)
        if condition.field == "datasets":
            return self._dataset(condition)
        column = self._column(condition.field, condition.key)
        if condition.op in (PRESENT, "absent"):
            is_absent: Condition = column.is_(None)
            return is_absent if condition.op == "absent" else not_(is_absent)
        return self._compared(column, condition)

    def _column(self, field: str, key: str) -> Any:
        columns: dict[str, Any] = {
            "name": func.coalesce(runs.c.name, ""),
            "user": func.coalesce(_told_user, runs.c.submitted_by, ""),
            "status": runs.c.status,
            "start": (runs.c.started_us + 500) // 1000,
            "end": (runs.c.ended_us + 500) // 1000,
            "note": func.nullif(self._in_document("description"), ""),
            "parent": select(_parents.c.id).where(_parents.c.serial == runs.c.parent_serial).scalar_subquery(),
        }
        if field == "id":
            return key + runs.c.id if key else runs.c.id
        return columns[field]

    def _label(self, condition: Comparison) -> Condition:
        c = run_labels.c
        named = (c.kind == LABELS[condition.field]) & (c.key == indexed(condition.key))
        if condition.field == "tags" and condition.key in GIT_TAGS:
            own = run_labels.alias("own").c
            has_tag = exists(
                select(1).where(own.run_serial == c.run_serial, own.kind == "tag", own.key == indexed(condition.key))
            )
            named |= (c.kind == "property") & (c.key == GIT_TAGS[condition.key]) & not_(has_tag)
        there: list[Condition] = [named]
        if condition.op == "absent":
            return not_(exists(select(1).where(c.run_serial == runs.c.serial, *there)))
        if condition.op in ("like", "ilike"):
            exact = self._exact(LABELS[condition.field], condition.key)
            value = case((func.length(c.value) == LONG, exact), else_=c.value)
            there.append(self._compared(value, condition))
        elif condition.op != PRESENT:
            there.append(OPERATORS[condition.op](c.value, indexed(str(condition.value))))
        return exists(select(1).where(c.run_serial == runs.c.serial, *there))

    def _dataset(self, condition: Comparison) -> Condition:
        c = run_labels.alias("read_datasets").c
        there = [c.run_serial == runs.c.serial, c.kind == f"{DATASET}_{condition.key}"]
        if condition.op == "=":
            there.append(c.key == indexed(str(condition.value)))
        return exists(select(1).where(*there, self._compared(c.value, condition)))

    def _in_document(self, field: str) -> Any:
        if self._is_postgres:
            return cast(runs.c.document, JSON)[field].as_string()
        return func.json_extract(runs.c.document, f"$.{field}")

    def _exact(self, kind: str, key: str) -> Any:
        """The whole text of a label, of which a long one's row has the beginning only."""
        if self._is_postgres:
            return cast(runs.c.document, JSON)[_FIELDS[kind]][key].as_string()
        each = func.json_each(runs.c.document, f"$.{_FIELDS[kind]}").table_valued("key", "value", name="exact")
        return select(each.c.value).where(each.c.key == key).scalar_subquery()

    def _compared(self, column: Any, condition: Comparison) -> Condition:
        value = condition.value
        if condition.op in ("in", "not in"):
            assert isinstance(value, tuple)
            inside: Condition = column.in_([indexed(text) for text in value])
            return inside if condition.op == "in" else not_(inside)
        if condition.op in ("like", "ilike"):
            return _like(column, condition, is_postgres=self._is_postgres)
        compared: Condition = OPERATORS[condition.op](column, indexed(value) if isinstance(value, str) else value)
        return compared

    def _by_code(self, column: Any) -> Any:
        return column.collate("C") if self._is_postgres else column


def _metric(condition: Comparison) -> Condition:
    m = run_metrics.alias("searched").c
    named = (m.run_serial == runs.c.serial, m.name == clean(condition.key), m.column == "")
    if condition.op in (PRESENT, "absent"):
        there = exists(select(1).where(*named, or_(_is_number(m), _is_nan(m))))
        return there if condition.op == PRESENT else not_(there)
    fits = OPERATORS[condition.op](m.latest, condition.value)
    return exists(select(1).where(*named, or_(fits, _is_nan(m)) if condition.op == "!=" else fits))


def _directed(value: Any, order: SearchOrder) -> Any:
    return value.desc() if order.descending else value.asc()


def _named_label(c: Any, order: SearchOrder) -> tuple[Condition, Condition]:
    return c.kind == LABELS[order.field.name], c.key == indexed(order.field.key)


def _is_number(m: Any) -> Condition:
    found: Condition = m.latest.is_not(None)
    return found


def _is_nan(m: Any) -> Condition:
    found: Condition = m.latest.is_(None) & m.latest_step.is_not(None)
    return found


def _read(session: Session, serials: list[int]) -> list[Run]:
    found: dict[int, Run] = {}
    for start in range(0, len(serials), MAX_PARAMETERS):
        part = serials[start : start + MAX_PARAMETERS]
        read = select(runs.c.serial, runs.c.document, runs.c.purge_us).where(runs.c.serial.in_(part))
        found.update((row.serial, shown_run(row.document, row.purge_us)) for row in session.select(read))
    return [found[serial] for serial in serials]


def find_candidates(
    session: Session, search: RunSearch, workspace_id: int, experiment_ids: Mapping[int, bool], *, many: int = MANY
) -> Candidates | None:
    """Return the runs that can fit, None where every condition leaves more than `many`."""
    scope = select(runs.c.serial).where(*_scope_conditions(runs.c.experiment_id, experiment_ids, search.view))
    narrowings = [Narrowing(scope, is_scope=True)] if len(experiment_ids) <= _FEW else []
    for condition in search.conditions:
        narrowings += _narrow(condition, workspace_id, is_postgres=session.dialect.name == "postgresql")
    counted = sorted((_count(session, each, many), at) for at, each in enumerate(narrowings))
    found: set[int] | None = None
    met: list[Narrowing] = []
    for count, at in counted:
        if count > many or (found is not None and len(found) <= _FEW):
            break
        serials = session.scalars(narrowings[at].serials)
        found = set(serials) if found is None else found.intersection(serials)
        met.append(narrowings[at])
    return None if found is None else Candidates(sorted(found), met)


def _scope_conditions(experiment_id: Any, experiments: Mapping[int, bool], view: str) -> list[Condition]:
    """Return the conditions of the experiments, which are given with whether each is archived, and of the view."""
    inside = experiment_id.in_(list(experiments))
    archived = [id for id, is_archived in experiments.items() if is_archived]
    if view != "archived" or not archived:
        return [inside, *view_conditions(view)]
    return [inside, or_(runs.c.archived == 1, experiment_id.in_(archived)), runs.c.purge_us.is_(None)]


def _is_one_of(session: Session, serial: ColumnElement[Any], serials: Sequence[int]) -> Condition:
    """Return the condition that `serial` is in a list of any length, which travels as one parameter."""
    if session.dialect.name == "postgresql":
        return serial == any_(cast(literal(list(serials), ARRAY(BigInteger)), ARRAY(BigInteger)))
    each = func.json_each(json.dumps(list(serials))).table_valued("value", name="candidates")
    found: Condition = serial.in_(select(each.c.value))
    return found


def _count(session: Session, narrowing: Narrowing, many: int) -> int:
    """Return how many runs it leaves, counted up to one more than `many`."""
    some = narrowing.serials.limit(many + 1).subquery()
    return int(session.scalars(select(func.count()).select_from(some))[0])


def _narrow(condition: Comparison, workspace_id: int, *, is_postgres: bool) -> list[Narrowing]:
    """Return what an index says of a condition: nothing, or one narrowing."""
    if condition.field == "metrics":
        return _narrow_metric(condition, workspace_id)
    if condition.field in LABELS:
        return _narrow_label(condition, is_postgres=is_postgres)
    c = run_labels.c
    if condition.field == "datasets":
        there = [c.kind == f"{DATASET}_{condition.key}"]
        there += [c.key == indexed(str(condition.value))] if condition.op == "=" else []
        return [Narrowing(select(c.run_serial).where(*there).distinct())]
    of_column = _compared_column(condition)
    if of_column is None:
        return []
    is_exact = condition.field != "start"
    serials = select(runs.c.serial).where(runs.c.workspace_id == workspace_id, of_column)
    return [Narrowing(serials, condition if is_exact else None)]


def _narrow_metric(condition: Comparison, workspace_id: int) -> list[Narrowing]:
    m = run_metrics.c
    if condition.op not in SIZES:
        return []
    named = (m.workspace_id == workspace_id, m.name == clean(condition.key), m.column == "")
    fits = OPERATORS[condition.op](m.latest, condition.value)
    return [Narrowing(select(m.run_serial).where(*named, fits), condition)]


def _narrow_label(condition: Comparison, *, is_postgres: bool) -> list[Narrowing]:
    c = run_labels.c
    if condition.op == "absent" or (condition.field == "tags" and condition.key in GIT_TAGS):
        return []
    named = and_(c.kind == LABELS[condition.field], c.key == indexed(condition.key))
    if condition.op in ("like", "ilike"):  # a long text is tested by itself
        fits = or_(func.length(c.value) == LONG, _like(c.value, condition, is_postgres=is_postgres))
        return [Narrowing(select(c.run_serial).where(named, fits))]
    if condition.op != PRESENT:
        named = and_(named, OPERATORS[condition.op](c.value, indexed(str(condition.value))))
    return [Narrowing(select(c.run_serial).where(named), condition)]


def _compared_column(condition: Comparison) -> Condition | None:
    """Return a condition on a column of `runs` that an index answers, None where there is none."""
    value = condition.value
    if condition.field == "status" and isinstance(value, tuple):
        return runs.c.status.in_(value)
    if condition.field == "id" and not condition.key and condition.op in ("=", "in"):
        return runs.c.id.in_([clean(text) for text in (value if isinstance(value, tuple) else (str(value),))])
    if condition.field == "name" and condition.op == "=":
        equal: Condition = runs.c.name == indexed(str(value))
        return equal if value else or_(equal, runs.c.name.is_(None))
    return _compared_start(condition) if condition.field == "start" else None


def _compared_start(condition: Comparison) -> Condition | None:
    """Return a condition on the time of the start that an index answers: it fits a millisecond more, too."""
    if not isinstance(condition.value, float) or condition.op not in SIZES:
        return None
    column, at = runs.c.started_us, int(condition.value * _MS_US)
    above, below = column >= at - _MS_US, column <= at + _MS_US
    if condition.op == "=":
        return and_(above, below)
    return below if condition.op in ("<", "<=") else above


def _like(column: Any, condition: Comparison, *, is_postgres: bool) -> Condition:
    """Return `like` or `ilike` of a column."""
    pattern, found = clean(str(condition.value)), column
    if is_postgres:
        escaped = pattern.replace("\\", "\\\\")
        found = column.like(escaped) if condition.op == "like" else column.op("ILIKE")(escaped)
    elif condition.op == "like":
        found = column.op("GLOB")("".join(_GLOB.get(letter, letter) for letter in pattern))
    else:  # SQLite's LIKE is blind to the case of ASCII letters, and has no escapes
        found = column.op("LIKE")(pattern)
    compared: Condition = found
    return compared
