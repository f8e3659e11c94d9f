"""Pages of runs by looking at every one of them: what RunQuery means, spelt out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runyard.core.errors import InvalidArgument
from runyard.core.filters import OPERATORS, PRESENT, Comparison, find_number, holds
from runyard.core.records import Run
from runyard.store.base import MetricCondition, RunPage, RunQuery
from runyard.store.memory_metrics import MemoryMetrics

LABELS = {"tags": "tags", "properties": "properties", "params": "parameters"}  # field of a filter → field of Run


def find_page(runs: Sequence[Run], metrics: Mapping[str, MemoryMetrics], query: RunQuery) -> RunPage:
    """Return a page of `runs`, which come in order of creation."""
    found = [run for run in runs if _matches(run, metrics[run.id], query)]
    found = _ordered(found, metrics, query)
    start = _start(found, query.cursor)
    end = start + max(1, query.limit)
    return RunPage(found[start:end], found[end - 1].id if end < len(found) else None)


def _matches(run: Run, metrics: MemoryMetrics, query: RunQuery) -> bool:
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
        and (query.where is None or holds(query.where, lambda one: _fits(run, metrics, one)))
    )


def _has(labels: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> bool:
    return all(key in labels and (value is None or labels[key] == value) for key, value in wanted.items())


def _holds(metrics: MemoryMetrics, condition: MetricCondition) -> bool:
    compare = OPERATORS.get(condition.op)
    if compare is None:
        raise InvalidArgument(f"A metric cannot be compared with {condition.op!r}.")
    last = _last(metrics, condition.name)
    return last is not None and bool(compare(last, condition.value))


def _fits(run: Run, metrics: MemoryMetrics, wanted: Comparison) -> bool:
    found = _value(run, metrics, wanted)
    if wanted.field in LABELS and isinstance(wanted.value, float):
        found = find_number(str(found))
    return found is not None and (wanted.op == PRESENT or bool(OPERATORS[wanted.op](found, wanted.value)))


def _value(run: Run, metrics: MemoryMetrics, wanted: Comparison) -> object:
    if wanted.field == "metrics":
        return _last(metrics, wanted.key)
    if wanted.field in LABELS:
        labels: Mapping[str, str | None] = getattr(run, LABELS[wanted.field])
        return (labels[wanted.key] or "") if wanted.key in labels else None
    fields: dict[str, object] = {
        "name": run.display_name,
        "created": run.created_at,
        "status": run.status.value,
        "target": run.spec.target,
    }
    return fields[wanted.field] if wanted.field in fields else getattr(run, wanted.field)


def _last(metrics: MemoryMetrics, name: str) -> float | None:
    summary = metrics.summaries.get((name, ""))
    return None if summary is None else summary.last


def _ordered(runs: list[Run], metrics: Mapping[str, MemoryMetrics], query: RunQuery) -> list[Run]:
    newest = runs[::-1] if query.descending else runs
    if query.order == "created":
        return newest
    prefix, _, name = query.order.partition(".")
    if prefix != "metrics" or not name:
        raise InvalidArgument(f"Runs cannot be ordered by {query.order!r}.")
    lasts = {run.id: _last(metrics[run.id], name) for run in runs}
    having = [run for run in newest if lasts[run.id] is not None]
    having.sort(key=lambda run: lasts[run.id] or 0.0, reverse=query.descending)
    return having + [run for run in newest if lasts[run.id] is None]


def _start(runs: Sequence[Run], cursor: str | None) -> int:
    if cursor is None:
        return 0
    for index, run in enumerate(runs):
        if run.id == cursor:
            return index + 1
    raise InvalidArgument(f"The cursor {cursor[:80]!r} is not one of this list's.")
