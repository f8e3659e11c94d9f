"""RunSearch of the store in memory: what its conditions and orders mean, spelt out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Field
from runyard.core.records import Run
from runyard.store.base import RunSearch
from runyard.store.memory.metrics import StoredMetrics
from runyard.store.text import to_microseconds

LABELS = {"tags": "tags", "properties": "properties", "params": "parameters"}


def search_runs(runs: Sequence[Run], metrics: Mapping[str, StoredMetrics], search: RunSearch) -> list[Run]:
    """Return the runs of a search. See RunStore.search_runs."""
    found = [
        run
        for run in runs
        if run.workspace == search.workspace and run.experiment in search.experiments
        if all(_fits(condition, run, metrics[run.id]) for condition in search.conditions)
    ]
    found.sort(key=lambda run: (-(milliseconds(run.started_at) or -math.inf), run.id))
    for order in reversed(search.orders):
        values = {run.id: _value(run, metrics[run.id], order.field) for run in found}
        numbered = [run for run in found if values[run.id] is not None and not _is_nan(values[run.id])]
        numbered.sort(key=lambda run: values[run.id], reverse=order.descending)  # type: ignore[arg-type,return-value]  # all texts or all numbers
        nan = [run for run in found if _is_nan(values[run.id])]
        found = numbered + nan + [run for run in found if values[run.id] is None]
    return found[search.offset : search.offset + search.limit]


def milliseconds(at: datetime | None) -> int | None:
    """Return a time in whole milliseconds, None for none."""
    return None if at is None else (to_microseconds(at) + 500) // 1000


def _fits(condition: Comparison, run: Run, metrics: StoredMetrics) -> bool:
    value = _value(run, metrics, Field(condition.field, condition.key))
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
        if summary is None:
            return None
        return summary.last if summary.last is not None else (math.nan if _is_nan(summary.last_value) else None)
    if field.name in LABELS:
        labels: Mapping[str, str | None] = getattr(run, LABELS[field.name])
        return (labels[field.key] or "") if field.key in labels else None
    values: dict[str, str | int | None] = {
        "id": field.key + run.id,
        "name": run.display_name,
        "user": run.submitted_by,
        "status": run.status.value,
        "parent": run.parent_id,
        "start": milliseconds(run.started_at),
        "end": milliseconds(run.ended_at),
    }
    return values[field.name]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
