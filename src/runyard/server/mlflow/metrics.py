"""Endpoints that read the points of metrics, and the points of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from runyard.core.errors import InvalidArgument, NotFound
from runyard.server.mlflow.checks import check_key, check_timestamp
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import number_json
from runyard.server.mlflow.errors import MlflowError
from runyard.server.mlflow.requests import MORE, Fields, missing
from runyard.server.mlflow.search import offset_of, page_of
from runyard.store.base import History, Points

if TYPE_CHECKING:
    from runyard.core.records import Run

MOST_HISTORY = 25_000
MOST_RUNS, MOST_SAMPLES = 100, 2500
_MS = 1_000_000  # ns


class PointRow(TypedDict, total=False):
    """A point as MLflow's JSON has it; with its run where there are several."""

    key: str
    value: float | str
    timestamp: int
    step: int
    run_id: str


@endpoint("GET", "mlflow/metrics/get-history", "read_run", "put_workspace")
def get_history(call: Call) -> Document:
    """Return the points of a metric by time, step and value; all of them where no number is asked for."""
    fields = call.fields
    run_id, key = fields.text("run_id", "") or fields.text("run_uuid", ""), fields.text("metric_key")
    limit = None if fields.value("max_results") is None else fields.integer("max_results")
    if limit is not None and limit < 1:
        raise MlflowError(f"Invalid value {limit} for parameter 'max_results' supplied. It must be a positive integer.")
    offset = offset_of(fields.text("page_token", ""))
    run = call.run("read_run", run_id or fields.text("run_id"))
    limit = None if limit is None else min(limit, MOST_HISTORY)
    rows = _rows(None, key, _history(call, run, key, offset, None if limit is None else limit + 1))
    return {"metrics": rows} if limit is None else page_of("metrics", rows[:limit], len(rows), offset, limit)


@endpoint("GET", "mlflow/metrics/get-history-bulk", "read_run", "put_workspace")
def get_history_bulk(call: Call) -> Document:
    """Return the points of a metric of several runs, in the order of their ids."""
    ids = call.fields.texts("run_id")
    if not ids:
        raise MlflowError("GetMetricHistoryBulk request must specify at least one run_id.")
    _check_count(ids, "GetMetricHistoryBulk request cannot specify more than")
    key = call.fields.text("metric_key", "")
    if not key:
        raise MlflowError("GetMetricHistoryBulk request must specify a metric_key.")
    left = min(call.fields.integer("max_results", MOST_HISTORY), MOST_HISTORY)
    rows: list[PointRow] = []
    for run in sorted((call.run("read_run", run_id) for run_id in ids), key=lambda run: run.id):
        if left > len(rows):
            rows += _rows(run, key, _history(call, run, key, 0, left - len(rows)))
    return {"metrics": rows}


@endpoint("GET", "mlflow/metrics/get-history-bulk-interval", "read_run", "put_workspace")
def get_history_bulk_interval(call: Call) -> Document:
    """Return points of a metric of several runs between two steps, evenly chosen where there are many."""
    fields = call.fields
    ids = fields.texts("run_ids") or fields.texts("run_id")
    if not ids:
        raise missing("run_ids")
    _check_count(ids, "GetMetricHistoryBulkInterval request must specify at most")
    key = fields.text("metric_key")
    most = fields.integer("max_results", MOST_SAMPLES)
    if not 1 <= most <= MOST_SAMPLES:
        raise MlflowError(f"max_results must be between 1 and {MOST_SAMPLES}.{MORE}")
    first, last = fields.find_text("start_step"), fields.find_text("end_step")
    low, high = fields.integer("start_step", -(1 << 63)), fields.integer("end_step", (1 << 63) - 1)
    if (first is None) != (last is None):
        raise MlflowError("If either start step or end step are specified, both must be specified.")
    if low > high:
        raise MlflowError(f"end_step must be greater than start_step. Found start_step={low} and end_step={high}.")
    rows: list[PointRow] = []
    for run in [call.run("read_run", run_id) for run_id in ids]:
        rows += _rows(run, key, _sampled(_history(call, run, key, 0, None), low, high, most))
    return {"metrics": rows} if rows else {}


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


def _check_count(ids: Sequence[str], words: str) -> None:
    if len(ids) > MOST_RUNS:
        more = MORE if "at most" in words else ""
        raise MlflowError(f"{words} {MOST_RUNS} run_ids. Received {len(ids)} run_ids.{more}")


def _history(call: Call, run: Run, key: str, offset: int, limit: int | None) -> History | None:
    try:
        return call.store.read_history(run.id, key, offset=offset, limit=limit)
    except (NotFound, InvalidArgument):  # MLflow has no points of it either
        return None


def _sampled(history: History | None, low: int, high: int, most: int) -> History | None:
    """Return the points between two steps by step; of many the first of each of `most` even parts, and the last."""
    if history is None:
        return None
    import numpy as np

    from runyard.store.metrics.history import ordered

    found = ordered(history.chosen((history.steps >= low) & (history.steps <= high)), by_step=True)
    if len(found) <= most:
        return found
    size, larger = divmod(len(found), most)  # the first parts have one point more, as SQL's NTILE makes them
    parts = np.arange(most)
    places = parts * size + np.minimum(parts, larger)
    places[-1] = len(found) - 1
    return found.chosen(places)


def _rows(run: Run | None, key: str, history: History | None) -> list[PointRow]:
    if history is None:
        return []
    named: PointRow = {} if run is None else {"run_id": run.id}
    return [
        {"key": key, "value": number_json(value), "timestamp": time, "step": step, **named}
        for value, step, time in zip(history.values.tolist(), history.steps.tolist(), history.ms.tolist())
    ]
