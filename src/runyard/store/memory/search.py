"""RunSearch of the store in memory: what its conditions and orders mean, spelt out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Field
from runyard.core.formats.run_inputs import datasets_of
from runyard.core.records import GIT_TAGS, Run
from runyard.store.base import RunSearch, SearchOrder
from runyard.store.memory.metrics import StoredMetrics
from runyard.store.text import to_microseconds

LABELS = {"tags": "tags", "properties": "properties", "params": "parameters"}


def search_runs(runs: Sequence[Run], metrics: Mapping[str, StoredMetrics], search: RunSearch) -> list[Run]:
    """Return the runs of a search. See RunStore.search_runs."""
    found = [
        run
        for run in runs
        if run.workspace == search.workspace and run.experiment_id in search.experiment_ids
        if all(_fits(condition, run, metrics[run.id]) for condition in search.conditions)
    ]
    found.sort(key=lambda run: (-_sorted_start(run), run.id))
    for order in reversed(search.orders):
        values = {
            run.id: _started_us(run)
            if order.field.name == "start"
            else _ranked(order, _value(run, metrics[run.id], order.field))
            for run in found
        }
        numbered = [run for run in found if values[run.id] is not None and not _is_nan(values[run.id])]
        numbered.sort(key=lambda run: values[run.id], reverse=order.descending)  # type: ignore[arg-type,return-value]  # all texts or all numbers
        nan = [run for run in found if _is_nan(values[run.id])]
        found = numbered + nan + [run for run in found if values[run.id] is None]
    return found[search.offset : search.offset + search.limit]


def _started_us(run: Run) -> int | None:
    return None if run.started_at is None else to_microseconds(run.started_at)


def _sorted_start(run: Run) -> float:
    started = _started_us(run)
    return -math.inf if started is None else started


def _ranked(order: SearchOrder, value: str | float | int | None) -> str | float | int | None:
    return next((rank for rank, group in enumerate(order.statuses) if value in group), value)


def milliseconds(at: datetime | None) -> int | None:
    """Return a time in whole milliseconds, None for none."""
    return None if at is None else (to_microseconds(at) + 500) // 1000


def _fits(condition: Comparison, run: Run, metrics: StoredMetrics) -> bool:
    if condition.field == "datasets":
        facts = [getattr(dataset, condition.key) for dataset in datasets_of(run.properties)]
        return any(_holds(condition, fact) for fact in facts if fact is not None)
    return _holds(condition, _value(run, metrics, Field(condition.field, condition.key)))


def _holds(condition: Comparison, value: str | float | int | None) -> bool:
    if condition.op in (PRESENT, "absent"):
        return (value is None) == (condition.op == "absent")
    if value is None:
        return False
    if condition.op in ("in", "not in"):
        assert isinstance(condition.value, tuple)
        return (value in condition.value) == (condition.op == "in")
    if condition.op in ("like", "ilike"):
        flags = re.DOTALL | (re.IGNORECASE if condition.op == "ilike" else 0)
        wild = {"%": ".*", "_": "."}
        pattern = "".join(wild.get(part, re.escape(part)) for part in str(condition.value))
        return re.fullmatch(pattern, str(value), flags) is not None
    return bool(OPERATORS[condition.op](value, condition.value))


def _value(run: Run, metrics: StoredMetrics, field: Field) -> str | float | int | None:
    if field.name == "metrics":
        summary = metrics.summaries.get((field.key, ""))
        return None if summary is None else summary.latest
    if field.name in LABELS:
        labels: Mapping[str, str | None] = getattr(run, LABELS[field.name])
        if field.name == "tags" and field.key in GIT_TAGS and field.key not in labels:
            return run.properties.get(GIT_TAGS[field.key])
        return (labels[field.key] or "") if field.key in labels else None
    values: dict[str, str | int | None] = {
        "id": field.key + run.id,
        "name": run.display_name,
        "user": run.user,
        "status": run.status.value,
        "note": run.description or None,
        "parent": run.parent_id,
        "start": milliseconds(run.started_at),
        "end": milliseconds(run.ended_at),
    }
    return values[field.name]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
