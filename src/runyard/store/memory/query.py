"""Searches of the store in memory, which test every run: what RunQuery means, spelt out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate

from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Field, find_number, holds, parse_field
from runyard.core.formats.plain import to_plain
from runyard.core.formats.run_inputs import DatasetInput, datasets_of
from runyard.core.names import is_system_metric
from runyard.core.records import Run
from runyard.store.base import Column, Groups, MetricCondition, Queries, RunPage, RunQuery, RunSearch, RunTable, Tally
from runyard.store.memory.metrics import StoredMetrics
from runyard.store.memory.search import search_runs
from runyard.store.memory.tables import MemoryPart
from runyard.store.record_limits import size_of
from runyard.store.table_rows import LOOKED_AT, MAX_COLUMNS, MAX_ROWS, check_groupable, grouped, row_of

LABELS = {"tags": "tags", "properties": "properties", "params": "parameters"}  # field of a filter → field of Run
Metrics = Mapping[str, StoredMetrics]  # by run


class MemoryQueries(MemoryPart, Queries):
    """Pages and tables of runs over all of them."""

    def list_runs(self, query: RunQuery) -> RunPage:
        with self._tables.lock:
            return find_page(*self._in_view(query), self._tables.clock())

    def search_runs(self, search: RunSearch) -> list[Run]:
        with self._tables.lock:
            self._tables.get_workspace(search.workspace)
            shown = self._tables.hidden.in_view("all")
            if search.view != "all":
                gone = {key for key, found in self._tables.experiments.items() if found.archived_at is not None}
                is_archived = search.view == "archived"
                shown = [
                    run
                    for run in shown
                    if (run.archived_at is not None or (run.workspace, run.experiment) in gone) == is_archived
                ]
            return search_runs(shown, self._tables.metrics, search)

    def list_datasets(
        self, workspace: str, experiment_ids: Sequence[str], *, limit: int = 1000
    ) -> list[tuple[str, DatasetInput]]:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            found: dict[tuple[str, str, str, str | None], DatasetInput] = {}
            for run in self._tables.hidden.in_view("all"):
                if run.workspace == workspace and run.experiment_id in experiment_ids:
                    for dataset in sorted(datasets_of(run.properties), key=lambda read: (read.name, read.digest)):
                        key = (run.experiment_id, dataset.name, dataset.digest, dataset.context)
                        found.setdefault(key, dataset)
        return [(key[0], dataset) for key, dataset in found.items()][:limit]

    def read_table(self, query: RunQuery, *, columns: Sequence[Field] = (), offset: int = 0) -> RunTable:
        with self._tables.lock:
            return read_table(*self._in_view(query), columns, offset, self._tables.clock())

    def list_columns(self, query: RunQuery) -> tuple[list[Column], int]:
        with self._tables.lock:
            return list_columns(*self._in_view(query), self._tables.clock())

    def group_runs(self, query: RunQuery, by: Field, *, limit: int = 1000) -> Groups:
        with self._tables.lock:
            return group_runs(*self._in_view(query), by, limit, self._tables.clock())

    def count_by_experiment(self, query: RunQuery) -> list[Tally]:
        with self._tables.lock:
            return count_by_experiment(*self._in_view(query), self._tables.clock())

    def _in_view(self, query: RunQuery) -> tuple[list[Run], Metrics, RunQuery]:
        self._tables.get_workspace(query.workspace)
        if query.experiment is not None:
            query = replace(query, experiment=self._tables.name_of(query.workspace, query.experiment))
        return self._tables.hidden.in_view(query.view), self._tables.metrics, query


def find_page(runs: Sequence[Run], metrics: Metrics, query: RunQuery, now: datetime) -> RunPage:
    """Return a page of `runs`, which come in order of creation."""
    matching = ordered(find_runs(runs, metrics, query, now), metrics, query, now)
    start = _start(matching, query.cursor)
    shown = _first_of_size(matching[start : start + max(1, query.limit)], query.max_bytes)
    end = start + len(shown)
    return RunPage(shown, matching[end - 1].id if shown and end < len(matching) else None)


def _first_of_size(runs: list[Run], max_bytes: int | None) -> list[Run]:
    """Return as many runs as a page holds, at least one."""
    if max_bytes is None:
        return runs
    sizes = accumulate(size_of(to_plain(run)) for run in runs)
    return runs[: max(1, sum(size <= max_bytes for size in sizes))]


def find_runs(runs: Sequence[Run], metrics: Metrics, query: RunQuery, now: datetime) -> list[Run]:
    """Return the runs that match the query, in their order."""
    return [run for run in runs if _matches(run, metrics[run.id], query, now)]


def _matches(run: Run, metrics: StoredMetrics, query: RunQuery, now: datetime) -> bool:
    kept = query.include_children or run.parent_id is None
    if query.parent_id is not None:
        kept = run.parent_id == query.parent_id
    return (
        kept
        and run.workspace == query.workspace
        and query.experiment in (None, run.experiment)
        and query.type in (None, run.type)
        and (not query.statuses or run.status in query.statuses)
        and _has(run.tags, query.tags)
        and _has(run.properties, query.properties)
        and _has(run.parameters, query.parameters)
        and all(_holds(metrics, condition) for condition in query.metrics)
        and (query.where is None or holds(query.where, lambda comparison: _fits(run, metrics, comparison, now)))
    )


def _has(labels: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> bool:
    return all(key in labels and (value is None or labels[key] == value) for key, value in wanted.items())


def _holds(metrics: StoredMetrics, condition: MetricCondition) -> bool:
    compare = OPERATORS.get(condition.op)
    if compare is None:
        raise InvalidArgument(f"A metric cannot be compared with {condition.op!r}.")
    last = _last(metrics, condition.name)
    return last is not None and bool(compare(last, condition.value))


def _fits(run: Run, metrics: StoredMetrics, comparison: Comparison, now: datetime) -> bool:
    value = value_of(run, metrics, Field(comparison.field, comparison.key), now)
    if comparison.op == PRESENT:
        return value is not None and (value != "" or comparison.field in LABELS)
    if comparison.field in LABELS and isinstance(comparison.value, float):
        value = find_number(str(value))
    return value is not None and bool(OPERATORS[comparison.op](value, comparison.value))


def value_of(run: Run, metrics: StoredMetrics, field: Field, now: datetime) -> object:
    """Return what a run has under a field: a number, a text, a time, or None."""
    if field.name == "metrics":
        return _last(metrics, field.key)
    if field.name in LABELS:
        labels: Mapping[str, str | None] = getattr(run, LABELS[field.name])
        return (labels[field.key] or "") if field.key in labels else None
    fields: dict[str, object] = {
        "name": run.display_name,
        "created": run.created_at,
        "status": run.status.value,
        "target": run.spec.target,
        "user": run.submitted_by,
        "duration": None if run.started_at is None else ((run.ended_at or now) - run.started_at).total_seconds(),
    }
    return fields[field.name] if field.name in fields else getattr(run, field.name)


def _last(metrics: StoredMetrics, name: str) -> float | None:
    summary = metrics.summaries.get((name, ""))
    return None if summary is None else summary.last


def ordered(runs: list[Run], metrics: Metrics, query: RunQuery, now: datetime) -> list[Run]:
    """Return the runs by a field: numbers before texts, those without it last, whatever the direction."""
    newest = runs[::-1] if query.descending else runs
    by = parse_field(query.order)
    if by.name == "created":
        return newest
    values = {run.id: value_of(run, metrics[run.id], by, now) for run in runs}
    numbers = {id: value for id, value in values.items() if isinstance(value, (int, float))}
    texts = {id: value for id, value in values.items() if isinstance(value, str) and (value or by.name in LABELS)}
    if by.name in LABELS:
        numbers = {id: number for id, value in texts.items() if (number := find_number(value)) is not None}
    having = [run for run in newest if run.id in numbers]
    having.sort(key=lambda run: numbers[run.id], reverse=query.descending)
    worded = [run for run in newest if run.id in texts and run.id not in numbers]
    worded.sort(key=lambda run: texts[run.id], reverse=query.descending)
    return having + worded + [run for run in newest if run.id not in numbers and run.id not in texts]


def _start(runs: Sequence[Run], cursor: str | None) -> int:
    if cursor is None:
        return 0
    for index, run in enumerate(runs):
        if run.id == cursor:
            return index + 1
    raise InvalidArgument(f"The cursor {cursor[:80]!r} is not one of this list's.")


def read_table(
    runs: Sequence[Run], metrics: Metrics, query: RunQuery, columns: Sequence[Field], offset: int, now: datetime
) -> RunTable:
    """Return a window of the table of `runs`. See RunStore.read_table."""
    matching = ordered(find_runs(runs, metrics, query, now), metrics, query, now)
    names = [column.key for column in columns if column.name == "metrics"]
    rows = []
    for run in matching[offset : offset + max(1, min(query.limit, MAX_ROWS))]:
        lasts = {name: summary.last for name, summary in metrics[run.id].summarize(names).items()}
        rows.append(row_of(to_plain(run), columns, lasts))
    return RunTable(len(matching), rows)


def list_columns(runs: Sequence[Run], metrics: Metrics, query: RunQuery, now: datetime) -> tuple[list[Column], int]:
    """Return the fields that the newest runs have. See RunStore.list_columns."""
    newest = find_runs(runs, metrics, query, now)[: -LOOKED_AT - 1 : -1]
    counted: Counter[Field] = Counter()
    for run in newest:
        counted.update(Field(name, key) for name, field in LABELS.items() for key in getattr(run, field))
        counted.update(Field("metrics", name) for name in metrics[run.id].summarize(None) if not is_system_metric(name))
    used = [Column(field, count) for field, count in counted.items()]
    used.sort(key=lambda column: (-column.runs, column.field.title))
    return used[:MAX_COLUMNS], len(newest)


def group_runs(runs: Sequence[Run], metrics: Metrics, query: RunQuery, by: Field, limit: int, now: datetime) -> Groups:
    """Return the values of a field with their numbers of runs. See RunStore.group_runs."""
    check_groupable(by)
    matching = find_runs(runs, metrics, query, now)
    values = [value_of(run, metrics[run.id], by, now) for run in matching]
    counts = Counter(value for value in values if value not in (None, "") or (value == "" and by.name in LABELS))
    return grouped(counts, total=len(matching), limit=limit)


def count_by_experiment(runs: Sequence[Run], metrics: Metrics, query: RunQuery, now: datetime) -> list[Tally]:
    """Return the runs per status of each experiment. See RunStore.count_by_experiment."""
    matching = find_runs(runs, metrics, query, now)
    families = {run.experiment: [other for other in matching if other.experiment == run.experiment] for run in matching}
    return [
        Tally(name, dict(Counter(run.status.value for run in family)), row_of(to_plain(family[-1]), (), {}))
        for name, family in sorted(families.items())
    ]
