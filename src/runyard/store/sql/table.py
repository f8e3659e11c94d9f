"""Any window of a sorted table of runs, fast at 100,000 runs whatever it is filtered, sorted or grouped by.

Each comparison and each order is read once, as serials, from the one index that holds it, and kept until its table is
written to; joining them is arithmetic on flags. What is shown is then read by primary key.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, compress
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, func, select

from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Field, Filter, Negation, parse_field
from runyard.core.formats.run_inputs import DatasetInput
from runyard.core.names import is_system_metric
from runyard.core.records import Run
from runyard.store.base import Column, Groups, Queries, RunPage, RunQuery, RunSearch, RunTable, TableRow, Tally
from runyard.store.serial_sets import Order, SerialSet
from runyard.store.sql.database import MAX_PARAMETERS, Database, Session
from runyard.store.sql.query import METRIC_ORDER, count_fitting, find_page, shown_run, view_conditions
from runyard.store.sql.rows import SqlPart, find_experiment_id, find_run_row, get_workspace_id
from runyard.store.sql.schema import experiments, run_labels, run_metrics, runs
from runyard.store.sql.search import list_datasets, search_runs
from runyard.store.table_rows import (
    LOOKED_AT,
    MAX_COLUMNS,
    MAX_ROWS,
    check_groupable,
    grouped,
    row_of,
    start_of,
    whole_filter,
)
from runyard.store.text import clean, indexed, load, to_microseconds

T = TypeVar("T", bound=Sized)
LABELS = {"tags": "tag", "properties": "property", "params": "parameter"}  # field of a filter → kind of label
TEXTS: dict[str, ColumnElement[Any]] = {
    "status": runs.c.status,
    "name": runs.c.name,
    "type": runs.c.type,
    "target": runs.c.target,
    "user": runs.c.submitted_by,
}
MAX_KEPT = 5_000_000  # serials in all that is kept: 40 MB
FRESH_S = 10  # how long the durations of runs that go on are taken as they were
FIELDS = {kind: field for field, kind in LABELS.items()}


class Kept:
    """What was read from indexes, until their tables change. Shared between threads."""

    def __init__(self, version: Callable[[str], int]) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._found: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()
        self._size = 0

    def versions(self) -> dict[str, int]:
        """Return the tables' versions: asked for before a transaction begins, they are not newer than what it sees."""
        return {table.name: self._version(table.name) for table in (runs, run_labels, run_metrics, experiments)}

    def get(self, key: Any, version: Any, read: Callable[[], T]) -> T:
        """Return the list kept under `key` for that version, or read and keep it. Any thread."""
        with self._lock:
            entry = self._found.get(key)
            if entry is not None and entry[0] == version:
                self._found.move_to_end(key)
                kept: T = entry[1]
                return kept
        value = read()
        with self._lock:
            self._drop(key)
            self._found[key] = (version, value)
            self._size += len(value)
            while self._size > MAX_KEPT and len(self._found) > 1:
                self._drop(next(iter(self._found)))
        return value

    def _drop(self, key: Any) -> None:
        if key in self._found:
            self._size -= len(self._found.pop(key)[1])


@dataclass(frozen=True)
class TableReader:
    """One question about the table, in one transaction."""

    session: Session
    kept: Kept
    versions: Mapping[str, int]
    now: datetime

    def window(self, query: RunQuery, columns: Sequence[Field], offset: int) -> RunTable:
        """Return a window of the table. See RunStore.read_table."""
        serials = self._sorted(query)
        shown = serials[offset : offset + max(1, min(query.limit, MAX_ROWS))]
        return RunTable(len(serials), self._rows(shown, columns))

    def page(self, query: RunQuery) -> RunPage:
        """Return a page of a list in any order; its cursor is the place and the serial of its last run."""
        serials = self._sorted(query)
        start = start_of(serials, query.cursor)
        shown = serials[start : start + max(1, min(query.limit, len(serials)))]
        documents = self._documents(shown, query.max_bytes)
        shown = shown[: count_fitting([documents.get(serial, ("", None))[0] for serial in shown], query.max_bytes)]
        end = start + len(shown)
        after = f"t{end - 1}/{serials[end - 1]}" if shown and end < len(serials) else None
        return RunPage([shown_run(*documents[serial]) for serial in shown if serial in documents], after)

    def columns(self, query: RunQuery) -> tuple[list[Column], int]:
        """Return the fields of the newest runs. See RunStore.list_columns."""
        newest = self._matching(query).serials()[: -LOOKED_AT - 1 : -1]
        counted: Counter[Field] = Counter()
        labels, metrics = run_labels.c, run_metrics.c
        for batch in _batches(newest):
            keys = select(labels.kind, labels.key, func.count())
            keys = keys.where(labels.run_serial.in_(batch), labels.kind.in_(FIELDS))
            for kind, key, count in self._all(keys.group_by(labels.kind, labels.key)):
                counted[Field(FIELDS[kind], key)] += count
            names = select(metrics.name, func.count()).where(metrics.run_serial.in_(batch))
            names = names.where(metrics.column == "", metrics.kind == "scalar")
            for name, count in self._all(names.group_by(metrics.name)):
                if not is_system_metric(name):
                    counted[Field("metrics", name)] += count
        used = [Column(field, count) for field, count in counted.items()]
        used.sort(key=lambda column: (-column.runs, column.field.title))
        return used[:MAX_COLUMNS], len(newest)

    def groups(self, query: RunQuery, by: Field, limit: int) -> Groups:
        """Return the values of a field with their numbers of runs. See RunStore.group_runs."""
        check_groupable(by)
        matching = self._matching(query)
        workspace_id = get_workspace_id(self.session, query.workspace)
        of_field, serials = self._pairs(values(by, workspace_id))
        counts = Counter(compress(of_field, matching.of_each(serials)))
        return grouped(counts, total=len(matching.serials()), limit=limit)

    def tally(self, query: RunQuery) -> list[Tally]:
        """Return the runs per status of each experiment. See RunStore.count_by_experiment."""
        matching = self._matching(query)
        workspace_id = get_workspace_id(self.session, query.workspace)
        status_of = dict(zip(*reversed(self._pairs(values(Field("status"), workspace_id))), strict=True))
        ordered = values(Field("experiment"), workspace_id).order_by(experiments.c.id, runs.c.serial)
        names, serials = self._pairs(ordered)
        names = list(compress(names, matching.of_each(serials)))
        serials = matching.among(serials)
        newest = dict(zip(names, serials, strict=True))  # the last of each stays
        counts: dict[str, dict[str, int]] = {name: {} for name in sorted(newest)}
        for (name, status), count in Counter(zip(names, map(status_of.__getitem__, serials), strict=True)).items():
            counts[name][status] = count
        rows = {row.experiment: row for row in self._rows(list(newest.values()), ())}
        return [Tally(name, counts[name], rows[name]) for name in counts if name in rows]

    def _sorted(self, query: RunQuery) -> Sequence[int]:
        by, where = parse_field(query.order), whole_filter(query)
        place = (query.workspace, query.experiment, query.parent_id, query.include_children, query.view)
        version: Any = (tuple(self.versions.items()), self._moment(by, where))
        if where is None:
            version = (self.versions[runs.name], self.versions[experiments.name], self._version(by))
        return self.kept.get((place, where, by, query.descending), version, lambda: self._sort(query, by))

    def _sort(self, query: RunQuery, by: Field) -> Sequence[int]:
        matching = self._matching(query)
        if by.name == "created":
            serials = matching.serials()
            return serials[::-1] if query.descending else serials
        workspace_id = get_workspace_id(self.session, query.workspace)
        order = self.kept.get(("order", workspace_id, by), self._version(by), lambda: self._order(by, workspace_id))
        return order.arrange(matching, descending=query.descending)

    def _order(self, by: Field, workspace_id: int) -> Order:
        numbers = self._serials(numbers_in_order(by, workspace_id, now_us=to_microseconds(self.now)))
        by_text = texts_in_order(by, workspace_id, product=self.session.dialect.name)
        if not numbers or by_text is None or self._count(by_text) == len(numbers):
            return Order(numbers, self._serials(None if numbers else by_text))
        texts = self._serials(by_text)
        size = max(map(max, (numbers, texts))) + 1
        return Order(numbers, (~SerialSet.of(size, numbers)).among(texts))

    def _matching(self, query: RunQuery) -> SerialSet:
        """Return the runs that the query asks for."""
        workspace_id = get_workspace_id(self.session, query.workspace)
        scope = self._scope(query, workspace_id)
        where = whole_filter(query)
        return scope if where is None else scope & self._matching_filter(where, workspace_id, scope.size)

    def _scope(self, query: RunQuery, workspace_id: int) -> SerialSet:
        c = runs.c
        scope = select(c.serial).order_by(c.serial).where(*view_conditions(query.view))
        if query.experiment is not None:
            experiment_id = find_experiment_id(self.session, workspace_id, query.experiment)
            if experiment_id is None:
                return SerialSet(1)
            scope = scope.where(c.experiment_id == experiment_id)
        else:
            scope = scope.where(c.workspace_id == workspace_id)
        if query.parent_id is not None:
            parent = find_run_row(self.session, query.parent_id)
            if parent is None:
                return SerialSet(1)
            scope = scope.where(c.parent_serial == parent.serial)
        elif not query.include_children:
            scope = scope.where(c.child == 0)
        place = (workspace_id, query.experiment, query.parent_id, query.include_children, query.view)
        version = (self.versions[runs.name], self.versions[experiments.name])
        return self.kept.get(("scope", place), version, lambda: self._flags(self._serials(scope)))

    def _matching_filter(self, where: Filter, workspace_id: int, size: int) -> SerialSet:
        if isinstance(where, Comparison):
            return SerialSet.of(size, self._compared(where, workspace_id))
        if isinstance(where, Negation):
            return ~self._matching_filter(where.part, workspace_id, size)
        matching = self._matching_filter(where.parts[0], workspace_id, size)
        for part in where.parts[1:]:
            other = self._matching_filter(part, workspace_id, size)
            matching = matching & other if where.op == "and" else matching | other
        return matching

    def _compared(self, comparison: Comparison, workspace_id: int) -> Sequence[int]:
        matching = select_matching(comparison, workspace_id, now_us=to_microseconds(self.now))
        version = self._version(Field(comparison.field, comparison.key))
        return self.kept.get(("fits", workspace_id, comparison), version, lambda: self._serials(matching))

    def _rows(self, serials: Sequence[int], columns: Sequence[Field]) -> list[TableRow]:
        documents = self._documents(serials)
        names = {clean(column.key): column.key for column in columns if column.name == "metrics"}
        lasts: dict[int, dict[str, Any]] = {}
        m = run_metrics.c
        for batch in _batches(serials) if names else ():
            last_values = select(m.run_serial, m.name, m.last_value)
            for serial, name, last in self._all(
                last_values.where(m.run_serial.in_(batch), m.name.in_(names), m.column == "", m.kind == "scalar")
            ):
                lasts.setdefault(serial, {})[names[name]] = None if last is None else load(last)
        there = [serial for serial in serials if serial in documents]
        return [row_of(load(documents[serial][0]), columns, lasts.get(serial, {})) for serial in there]

    def _documents(self, serials: Sequence[int], max_bytes: int | None = None) -> dict[int, tuple[str, int | None]]:
        """Return each run's document, and when it goes for good; no more batches than `max_bytes` allow."""
        documents: dict[int, tuple[str, int | None]] = {}
        size = 0
        for batch in _batches(serials, 50 if max_bytes is not None else MAX_PARAMETERS - 100):
            rows = select(runs.c.serial, runs.c.document, runs.c.purge_us).where(runs.c.serial.in_(batch))
            for serial, document, purge_us in self._all(rows):
                documents[serial] = (document, purge_us)
                size += len(document)
            if max_bytes is not None and size > max_bytes:
                break
        return documents

    def _version(self, field: Field) -> Any:
        return self.versions[table_of(field.name)], self.versions[experiments.name], self._moment(field, None)

    def _moment(self, field: Field, where: Filter | None) -> int:
        """Return a number that goes on with time where runs that go on count as longer and longer."""
        return int(self.now.timestamp() / FRESH_S) if field.name == "duration" or asks_duration(where) else 0

    def _serials(self, statement: Select[Any] | None) -> array[int]:
        return array("q") if statement is None else array("q", chain.from_iterable(self._all(statement)))

    def _pairs(self, statement: Select[Any]) -> tuple[Sequence[Any], Sequence[int]]:
        """Return the two columns of a select."""
        rows = self._all(statement)
        return ([row[0] for row in rows], array("q", [row[1] for row in rows]))

    def _count(self, statement: Select[Any]) -> int:
        return int(self._all(statement.order_by(None).with_only_columns(func.count()))[0][0])

    def _flags(self, serials: Sequence[int]) -> SerialSet:
        return SerialSet.of(serials[-1] + 1 if serials else 1, serials)

    def _all(self, statement: Select[Any]) -> Sequence[Any]:
        """Return the driver's own tuples: SQLAlchemy's rows would cost as much again as the reading."""
        cursor: Any = self.session.connection.execute(statement).cursor
        found: Sequence[Any] = cursor.fetchall()
        return found


def asks_duration(where: Filter | None) -> bool:
    """Whether a filter compares durations, of which those of runs that go on are in no column."""
    if where is None or isinstance(where, Comparison):
        return where is not None and where.field == "duration"
    if isinstance(where, Negation):
        return asks_duration(where.part)
    return any(asks_duration(part) for part in where.parts)


def _batches(serials: Sequence[int], size: int = MAX_PARAMETERS - 100) -> Iterator[list[int]]:
    for at in range(0, len(serials), size):
        yield list(serials[at : at + size])


class SqlQueries(SqlPart, Queries):
    """Pages and tables of runs. Lists of serials are kept between calls until their tables change."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        super().__init__(database, clock=clock)
        self._kept = Kept(database.version)

    def read_table(self, query: RunQuery, *, columns: Sequence[Field] = (), offset: int = 0) -> RunTable:
        with self._table() as table:
            return table.window(query, columns, offset)

    def list_columns(self, query: RunQuery) -> tuple[list[Column], int]:
        with self._table() as table:
            return table.columns(query)

    def group_runs(self, query: RunQuery, by: Field, *, limit: int = 1000) -> Groups:
        with self._table() as table:
            return table.groups(query, by, limit)

    def count_by_experiment(self, query: RunQuery) -> list[Tally]:
        with self._table() as table:
            return table.tally(query)

    def list_runs(self, query: RunQuery) -> RunPage:
        """Read a page along an index where there is one for it, else of the table."""
        is_indexed = query.order == "created" or query.order.startswith(METRIC_ORDER)
        if not is_indexed or asks_duration(query.where):
            with self._table() as table:
                return table.page(query)
        with self._database.reading() as session:
            return find_page(session, query)

    def search_runs(self, search: RunSearch) -> list[Run]:
        with self._database.reading() as session:
            return search_runs(session, search)

    def list_datasets(
        self, workspace: str, experiment_ids: Sequence[str], *, limit: int = 1000
    ) -> list[tuple[str, DatasetInput]]:
        with self._database.reading() as session:
            return list_datasets(session, workspace, experiment_ids, limit)

    @contextmanager
    def _table(self) -> Iterator[TableReader]:
        versions, now = self._kept.versions(), self._clock()
        with self._database.reading() as session:
            yield TableReader(session, self._kept, versions, now)


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
