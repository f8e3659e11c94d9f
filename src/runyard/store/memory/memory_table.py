"""The table of runs by looking at every one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from runyard.core.formats.filters import Field
from runyard.core.formats.plain import to_plain
from runyard.core.names import is_system_metric
from runyard.core.records import Run
from runyard.store.base import Column, Groups, RunQuery, RunTable, Tally
from runyard.store.memory.metrics import MemoryMetrics
from runyard.store.memory.query import LABELS, find_runs, ordered, value_of
from runyard.store.table_rows import LOOKED_AT, MAX_COLUMNS, MAX_ROWS, check_groupable, grouped, row_of

Metrics = Mapping[str, MemoryMetrics]


def read_table(
    runs: Sequence[Run], metrics: Metrics, query: RunQuery, columns: Sequence[Field], offset: int, now: datetime
) -> RunTable:
    found = ordered(find_runs(runs, metrics, query, now), metrics, query, now)
    names = [column.key for column in columns if column.name == "metrics"]
    rows = []
    for run in found[offset : offset + max(1, min(query.limit, MAX_ROWS))]:
        lasts = {name: summary.last for name, summary in metrics[run.id].summarize(names).items()}
        rows.append(row_of(to_plain(run), columns, lasts))
    return RunTable(len(found), rows)


def list_columns(runs: Sequence[Run], metrics: Metrics, query: RunQuery, now: datetime) -> tuple[list[Column], int]:
    newest = find_runs(runs, metrics, query, now)[: -LOOKED_AT - 1 : -1]
    found: Counter[Field] = Counter()
    for run in newest:
        found.update(Field(name, key) for name, field in LABELS.items() for key in getattr(run, field))
        found.update(Field("metrics", name) for name in metrics[run.id].summarize(None) if not is_system_metric(name))
    used = [Column(field, count) for field, count in found.items()]
    used.sort(key=lambda column: (-column.runs, column.field.title))
    return used[:MAX_COLUMNS], len(newest)


def group_runs(runs: Sequence[Run], metrics: Metrics, query: RunQuery, by: Field, limit: int, now: datetime) -> Groups:
    check_groupable(by)
    found = find_runs(runs, metrics, query, now)
    values = [value_of(run, metrics[run.id], by, now) for run in found]
    counts = Counter(value for value in values if value not in (None, "") or (value == "" and by.name in LABELS))
    return grouped(counts, total=len(found), limit=limit)


def count_by_experiment(runs: Sequence[Run], metrics: Metrics, query: RunQuery, now: datetime) -> list[Tally]:
    found = find_runs(runs, metrics, query, now)
    families = {run.experiment: [one for one in found if one.experiment == run.experiment] for run in found}
    return [
        Tally(name, dict(Counter(run.status.value for run in family)), row_of(to_plain(family[-1]), (), {}))
        for name, family in sorted(families.items())
    ]
