"""Metrics of an exported run of Azure ML: every kind that its SDK logs, with steps and times."""

from __future__ import annotations

import json
import re
from array import array
from datetime import datetime, timedelta, timezone
from typing import Any, Iterator, List, Mapping, Optional, Sequence

from runyard.imports.records import F8, I8, JSON, NS, PART_POINTS, ArtifactPoint, Meta, Part, PointPart, TableRows

TABLE = "azureml.v1.table"
INLINE = ("azureml.v1.scalar", "azureml.v1.list", TABLE)
ADDRESS = "aml://artifactId/"
_OLD_IMAGE, _OLD = "azureml.v1.image", "azureml.v1."
_FLOATS = ("float", "double")
_INT64 = range(-(1 << 63), 1 << 63)
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?\s*(?:(Z)|([+-])(\d\d):?(\d\d))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def time_ns(value: object) -> Optional[int]:
    """Return ns since 1970 of a time as Azure writes it; None for what is no time."""
    found = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    *date, fraction, _zulu, sign, hours, minutes = found.groups()
    try:
        moment = datetime(*map(int, date), tzinfo=timezone.utc)  # type: ignore[misc,arg-type]  # six numbers
    except ValueError:
        return None
    shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    since = moment - shift - _EPOCH
    return (since.days * 86400 + since.seconds) * NS + int((fraction or "").ljust(9, "0")[:9] or 0)


def iter_points(metrics: Meta, start_ns: int, notes: List[str]) -> Iterator[Part]:
    """Yield what `metrics.json` holds: samples with times, or what `get_metrics` returned, without."""
    samples = metrics.get("samples")
    if isinstance(samples, dict):
        for name, found in samples.items():
            yield from _samples(name, found if isinstance(found, dict) else {}, start_ns, notes)
        return
    for name, value in (metrics.get("merged") or {}).items():
        yield from _merged(name, value, start_ns, notes)


def _samples(name: str, found: Mapping[str, Any], start_ns: int, notes: List[str]) -> Iterator[Part]:
    kind, columns, rows = str(found.get("kind") or ""), found.get("columns") or {}, found.get("rows") or []
    rows = [row for row in rows if isinstance(row, list) and len(row) == 3 and isinstance(row[2], dict)]
    if len(rows) != len(found.get("rows") or []):
        notes.append(f"metric {name[:200]}: some of its values cannot be read")
    if not rows:
        return
    times = [time_ns(row[1]) or start_ns for row in rows]
    is_float = {column: str(of).lower() in _FLOATS for column, of in columns.items()}
    if kind == TABLE:
        names = [*dict.fromkeys([*columns, *(column for row in rows for column in row[2])])]
        cells = {
            column: [_cell(row[2].get(column), is_float.get(column, False), notes) for row in rows] for column in names
        }
        yield TableRows(name, cells, times)
        return
    values = [row[2].get(name) for row in rows]
    if kind not in INLINE and any(isinstance(value, str) and value.startswith(ADDRESS) for value in values):
        yield from _artifact(name, kind, values, times, notes)
        return
    steps = [row[0] if _is_step(row[0]) else at for at, row in enumerate(rows)]
    yield from _series(name, [_cell(value, is_float.get(name, False), notes) for value in values], steps, times)


def _merged(name: str, value: Any, start_ns: int, notes: List[str]) -> Iterator[Part]:
    """Yield a metric as `get_metrics` returns it: a value, a list of values, or a table as a dict of columns."""
    if isinstance(value, dict):
        columns = {column: cells if isinstance(cells, list) else [cells] for column, cells in value.items()}
        count = max(map(len, columns.values()), default=0)
        if count:
            cells = {
                column: [_cell(cell, False, notes) for cell in found] + [None] * (count - len(found))
                for column, found in columns.items()
            }
            yield TableRows(name, cells, [start_ns] * count)
        return
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, str) and one.startswith(ADDRESS) for one in values):
        yield from _artifact(name, "", values, [start_ns] * len(values), notes)
        return
    plain = [_cell(one, False, notes) for one in values]
    yield from _series(name, plain, range(len(values)), [start_ns] * len(values))


def _artifact(
    name: str, kind: str, values: Sequence[Any], times: Sequence[int], notes: List[str]
) -> Iterator[ArtifactPoint]:
    """Yield the metric's file: of several, Azure's own `get_metrics` knows the first."""
    file = next((_file_of(value, kind) for value in values if isinstance(value, str)), "")
    if not file:
        notes.append(f"metric {name[:200]}: it names no file")
        return
    if len(values) > 1:
        notes.append(f"metric {name[:200]}: of its {len(values):,} files the first is its value; all are files here")
    yield ArtifactPoint(name, kind.rpartition(".")[2] or "image", file, times[0])


def _file_of(address: str, kind: str) -> str:
    """Return the file that an address means: `aml://artifactId/<origin>/<container>/<path>`, and its old forms."""
    path = address[len(ADDRESS) :] if address.startswith(ADDRESS) else ""
    parts = path.split("/")
    if kind == _OLD_IMAGE and parts[0] != "ExperimentRun":
        return path
    below = parts[2:]
    is_old = kind.startswith(_OLD) and kind != _OLD_IMAGE
    return "/".join(below[1:] if is_old and below[:1] == ["outputs"] and len(below) > 1 else below)


def _series(name: str, values: List[Any], steps: Sequence[int], times: Sequence[int]) -> Iterator[PointPart]:
    kind = _kind_of(values)
    for at in range(0, len(values), PART_POINTS):
        end = at + PART_POINTS
        some: Any = values[at:end]
        if kind != JSON:
            some = array("d" if kind == F8 else "q", some)
        yield PointPart(name, array("q", steps[at:end]), array("q", times[at:end]), some, kind)


def _kind_of(values: Sequence[Any]) -> str:
    types = set(map(type, values))
    if types == {float}:
        return F8
    return I8 if types == {int} and all(value in _INT64 for value in values) else JSON


def _cell(value: Any, is_float: bool, notes: List[str]) -> Any:
    """Return a value as it was logged: floats that the service writes as texts, NaN among them, are floats."""
    if is_float and value is not None and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError):
            notes.append(f"{str(value)[:100]!r} among floats is kept as it is")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    note = "values that are lists or objects are kept as JSON texts"
    if note not in notes:
        notes.append(note)
    return json.dumps(value, sort_keys=True)


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64
