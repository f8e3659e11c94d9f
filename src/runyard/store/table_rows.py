"""What every store does alike for the table of runs: one filter of a query, a line of a run, groups of values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import OPERATORS, PRESENT, Comparison, Field, Filter, Junction, find_number
from runyard.core.statuses import RunStatus
from runyard.store.base import Group, Groups, RunQuery, TableRow

LOOKED_AT = 5000  # newest runs whose columns are counted
MAX_COLUMNS = 1000
MAX_ROWS = 1000
MAX_TEXT = 300  # characters of a cell
LABELS = {"tags": "tags", "properties": "properties", "params": "parameters"}  # field → field of Run


def whole_filter(query: RunQuery) -> Filter | None:
    """Return all conditions of a query on runs, beside workspace, experiment, kinship and view, as one filter."""
    parts: list[Filter] = []
    for name, labels in (("tags", query.tags), ("properties", query.properties), ("params", query.parameters)):
        for key, value in labels.items():
            parts.append(Comparison(name, PRESENT if value is None else "=", value, key))
    for wanted in query.metrics:
        if wanted.op not in OPERATORS:
            raise InvalidArgument(
                f"A metric cannot be compared with {wanted.op!r}.", hint=f"Use one of {' '.join(OPERATORS)}."
            )
        parts.append(Comparison("metrics", wanted.op, float(wanted.value), wanted.name))
    if query.statuses:
        parts.append(Junction("or", tuple(Comparison("status", "=", status.value) for status in query.statuses)))
    if query.type is not None:
        parts.append(Comparison("type", "=", query.type))
    if query.where is not None:
        parts.append(query.where)
    return Junction("and", tuple(parts)) if parts else None


def row_of(run: Mapping[str, Any], columns: Sequence[Field], metrics: Mapping[str, Any]) -> TableRow:
    """Return a run's line. `run` is its document; `metrics` its last values."""
    return TableRow(
        id=run["id"],
        number=run["number"],
        experiment=run["experiment"],
        display_name=short(run.get("display_name") or ""),
        status=RunStatus(run["status"]),
        type=run.get("type"),
        target=(run.get("spec") or {}).get("target") or "local",
        created_at=datetime.fromisoformat(run["created_at"]),
        started_at=_time(run.get("started_at")),
        ended_at=_time(run.get("ended_at")),
        parent_id=run.get("parent_id"),
        submitted_by=run.get("submitted_by") or "",
        archived=run.get("archived_at") is not None,
        waits_for=short(run.get("waits_for") or ""),
        error=_error(run.get("error")),
        values=[_value(run, column, metrics) for column in columns],
    )


def grouped(counts: Mapping[Any, int], *, total: int, limit: int) -> Groups:
    """Return the groups of values with their counts; whatever is missing of `total` has no value."""
    groups = [Group(value, count) for value, count in counts.items() if value is not None and count]
    groups.sort(key=lambda group: _rank(group.value))
    rest = total - sum(group.count for group in groups)
    if rest:
        groups.append(Group(None, rest))
    return Groups(groups[:limit], len(groups))


def check_groupable(by: Field) -> None:
    """Raise InvalidArgument for a field that has a value of its own in nearly every run."""
    if by.name in ("created", "duration"):
        raise InvalidArgument(
            f"Runs cannot be grouped by `{by.name}`.",
            why="Hardly two runs have the same.",
            hint="Group by another field, such as `status` or `params.<name>`.",
        )


def start_of(serials: Sequence[int], cursor: str | None) -> int:
    """Return where the page after a cursor begins: behind its run, or its place when the run is gone."""
    if cursor is None:
        return 0
    place, slash, serial = cursor[1:].partition("/")
    if cursor[:1] != "t" or not slash or not _is_count(place) or not _is_count(serial):
        raise InvalidArgument(
            f"The cursor {cursor[:80]!r} is not one of this list's.",
            hint="Take `next` of the page before, with the same order.",
        )
    try:
        return serials.index(int(serial)) + 1
    except ValueError:
        return int(place)


def short(text: str) -> str:
    """Return a text as a cell of the table shows it: cut at MAX_TEXT."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _rank(value: str | float | None) -> tuple[int, float, str]:
    """Numbers come before texts; of labels also those whose text is a number."""
    number = value if isinstance(value, (int, float)) else find_number(value)
    return (0, number, str(value)) if number is not None else (1, 0.0, str(value))


def _value(run: Mapping[str, Any], column: Field, metrics: Mapping[str, Any]) -> Any:
    if column.name == "metrics":
        value = metrics.get(column.key)
        if isinstance(value, float) and not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")  # JSON has no word for them
        return short(value) if isinstance(value, str) else value
    if column.name in LABELS:
        labels = run.get(LABELS[column.name]) or {}
        return short(labels[column.key] or "") if column.key in labels else None
    return None  # the row has it


def _error(error: Mapping[str, Any] | None) -> dict[str, str] | None:
    if not error:
        return None
    lines = str(error.get("message") or "").strip().splitlines()
    return {"code": short(str(error.get("code") or "")), "line": short(lines[0]) if lines else ""}


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
