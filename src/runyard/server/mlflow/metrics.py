"""Endpoints that read the points of metrics, and the points of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from runyard.core.errors import InvalidArgument, NotFound
from runyard.server.mlflow.checks import check_key, check_timestamp
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import number_json
from runyard.server.mlflow.errors import MlflowError
from runyard.server.mlflow.requests import Fields
from runyard.server.mlflow.search import offset_of, page_of
from runyard.store.base import Points

if TYPE_CHECKING:
    from runyard.core.records import Run

MOST_HISTORY = 25_000
MOST_RUNS, MOST_SAMPLES = 100, 2500
_MS = 1_000_000  # ns


class PointRow(TypedDict):
    """A point as MLflow's JSON has it."""

    key: str
    value: float | str
    timestamp: int
    step: int
    run_id: str


@endpoint("GET", "mlflow/metrics/get-history", "read_run", "put_workspace")
def get_history(call: Call) -> Document:
    """Return the points of a metric by time, step and value; all of them where no number is asked for."""
    run = call.run("read_run", call.fields.text("run_id", "") or call.fields.text("run_uuid"))
    rows = _history(call, run, call.fields.text("metric_key"))
    limit = min(call.fields.integer("max_results", 0), MOST_HISTORY)
    if limit < 0:
        raise MlflowError(f"Invalid value {limit} for parameter 'max_results' supplied.")
    if not limit:
        return {"metrics": rows}
    token = call.fields.text("page_token", "")
    offset = offset_of(token) if token else 0
    return page_of("metrics", rows[offset : offset + limit], len(rows) - offset, offset, limit)


@endpoint("GET", "mlflow/metrics/get-history-bulk", "read_run", "put_workspace")
def get_history_bulk(call: Call) -> Document:
    """Return the points of a metric of several runs."""
    most = min(call.fields.integer("max_results", MOST_HISTORY), MOST_HISTORY)
    rows = [row for run in _runs(call, "run_id") for row in _history(call, run, call.fields.text("metric_key"))]
    return {"metrics": rows[:most]}


@endpoint("GET", "mlflow/metrics/get-history-bulk-interval", "read_run", "put_workspace")
def get_history_bulk_interval(call: Call) -> Document:
    """Return points of a metric of several runs between two steps, evenly chosen where there are many."""
    fields = call.fields
    runs, key = _runs(call, "run_ids"), fields.text("metric_key")
    first, last = fields.find_text("start_step"), fields.find_text("end_step")
    if (first is None) != (last is None):
        raise MlflowError("If either start step or end step are specified, both must be specified.")
    low, high = fields.integer("start_step", -(1 << 63)), fields.integer("end_step", (1 << 63) - 1)
    if low > high:
        raise MlflowError(f"end_step must be greater than start_step. Found start_step={low} and end_step={high}.")
    most = fields.integer("max_results", MOST_SAMPLES)
    if not 1 <= most <= MOST_SAMPLES:
        raise MlflowError(f"max_results must be between 1 and {MOST_SAMPLES}.")
    found: list[PointRow] = []
    for run in runs:
        rows = [row for row in _history(call, run, key) if low <= row["step"] <= high]
        rows.sort(key=lambda row: (row["step"], row["timestamp"]))
        if len(rows) > most:
            chosen = sorted({round(at * (len(rows) - 1) / max(most - 1, 1)) for at in range(most)})
            rows = [rows[at] for at in chosen]
        found += rows
    return {"metrics": found}


def points_of(metrics: Sequence[Fields], path: str) -> list[Points]:
    """Return the points of a request, by metric."""
    import numpy as np  # most requests bring no points

    by_name: dict[str, list[tuple[float, int, int]]] = {}
    for index, fields in enumerate(metrics):
        prefix = f"{path}[{index}]." if path else ""
        key = check_key(fields.text("key"), f"{prefix}name", "Metric name")
        value = fields.number("value")
        timestamp = check_timestamp(fields.integer("timestamp"), key, value, f"{prefix}timestamp")
        by_name.setdefault(key, []).append((value, timestamp * _MS, fields.integer("step", 0)))
    return [
        Points(
            name,
            "f8",
            np.array([point[0] for point in points], dtype=np.float64),
            np.array([point[1] for point in points], dtype=np.int64),
            np.array([point[2] for point in points], dtype=np.int64),
        )
        for name, points in by_name.items()
    ]


def _runs(call: Call, name: str) -> list[Run]:
    ids = call.fields.texts(name)
    if not ids:
        raise MlflowError(f"GetMetricHistoryBulk request must specify at least one {name}.")
    if len(ids) > MOST_RUNS:
        raise MlflowError(
            f"GetMetricHistoryBulk request cannot specify more than {MOST_RUNS} run_ids. Received {len(ids)} run_ids."
        )
    return [call.run("read_run", run_id) for run_id in ids]


def _history(call: Call, run: Run, key: str) -> list[PointRow]:
    try:
        series = call.store.read_series(run.id, key, rank=None)
    except (NotFound, InvalidArgument):  # MLflow has no points of it either
        return []
    values = series.values if isinstance(series.values, list) else series.values.tolist()
    points = [
        (time // _MS, step, float(value))
        for value, step, time in zip(values, series.steps.tolist(), series.times_ns.tolist())
        if isinstance(value, (int, float))
    ]
    points.sort(key=lambda point: (point[0], point[1], point[2] == point[2], point[2]))
    return [
        {"key": key, "value": number_json(value), "timestamp": time, "step": step, "run_id": run.id}
        for time, step, value in points
    ]
