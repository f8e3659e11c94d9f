"""Metrics as packed columns; never as JSON, except for values that are no numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Optional

from fastapi import APIRouter, Query, Request, Response

from runyard.core.errors import InvalidArgument
from runyard.core.formats.frames import pack_frame, pack_head
from runyard.core.names import check_metric_name, is_system_metric
from runyard.core.records import MetricInfo
from runyard.server.http.answers import Piece, frames_answer, json_answer
from runyard.server.http.calls import call_of
from runyard.server.http.openapi import gives
from runyard.store.base import RunStore, Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

router = APIRouter(prefix="/runs/{run_id}/metrics", tags=["metrics"])
MAX_WIDTH = 10_000
HEAVY_POINTS = 1_000_000
Rank = Annotated[Optional[int], Query(ge=0, lt=1 << 31)]
Step = Annotated[Optional[int], Query(ge=-(1 << 63), lt=1 << 63)]


@router.get("")
@gives(list[MetricInfo])
def list_metrics(run_id: str, request: Request, name: Optional[str] = None, system: bool = False) -> Response:
    """List a run's metrics with last, least and greatest value; `system`: what its machine did instead."""
    call = call_of(request)
    call.readable_run(run_id)
    return json_answer(_asked_for(call.services.store, run_id, name, system=system))


@router.get("/values")
def metric_values(
    run_id: str, request: Request, name: Optional[str] = None, rank: Rank = None, system: bool = False
) -> Response:
    """Return all values of all series, one frame each, in the order the metrics were first logged."""
    call = call_of(request)
    call.readable_run(run_id)
    store = call.services.store
    infos = [info for info in _asked_for(store, run_id, name, system=system) if rank is None or rank in info.ranks]
    pieces = (piece for info in infos for piece in _iter_frames(store, run_id, info, rank))
    return frames_answer(pieces, is_heavy=sum(info.count * len(info.columns) for info in infos) > HEAVY_POINTS)


@router.get("/series")
def metric_series(run_id: str, request: Request, name: str, column: str = "", rank: Rank = None) -> Response:
    """Return steps, times and values of one series."""
    call = call_of(request)
    call.readable_run(run_id)
    series = call.services.store.read_series(run_id, check_metric_name(name), column=column, rank=rank)
    kind, values = _packed(series)
    pieces = _column("steps", "i8", series.steps) + _column("times", "i8", series.times_ns)
    return frames_answer(pieces + pack_frame({"column": "values", "type": kind, "count": len(series.values)}, values))


@router.get("/chart")
def metric_chart(
    run_id: str,
    request: Request,
    name: str,
    column: str = "",
    rank: Rank = None,
    width: int = 1000,
    first: Step = None,
    last: Step = None,
) -> Response:
    """Return at most `width` buckets of a series with exact least and greatest values."""
    call = call_of(request)
    call.readable_run(run_id)
    check_width(width)
    chart = call.services.store.chart(
        run_id, check_metric_name(name), column=column, rank=rank, width=width, first=first, last=last
    )
    pieces: list[Piece] = []
    for field, values in vars(chart).items():
        pieces += _column(field, "f8" if values.dtype.kind == "f" else "i8", values)
    return frames_answer(pieces)


def check_width(width: int) -> None:
    if not 1 <= width <= MAX_WIDTH:
        raise InvalidArgument(f"A chart's width must be 1 to {MAX_WIDTH}, found {width}.")


def _asked_for(store: RunStore, run_id: str, name: Optional[str], *, system: bool) -> list[MetricInfo]:
    """Return the metric `name`; without a name those that were logged, or the system's."""
    found = store.list_metrics(run_id, name=_metric(name))
    return [info for info in found if name is not None or is_system_metric(info.name) == system]


def _metric(name: Optional[str]) -> Optional[str]:
    return None if name is None else check_metric_name(name)


def _iter_frames(store: RunStore, run_id: str, info: MetricInfo, rank: Optional[int]) -> Iterator[Piece]:
    """Yield a metric's frames, piece by piece where the store can read it so."""
    if info.kind == "artifact":
        head = {"metric": info.name, "kind": "artifact", "column": "", "rank": rank or 0, "type": "json", "count": 0}
        yield from pack_frame({**head, "file": info.artifact}, b"[]")
        return
    for column in info.columns:
        head = {"metric": info.name, "kind": info.kind, "column": column}
        with store.read_values(run_id, info.name, column=column, rank=rank) as found:
            if isinstance(found, Series):
                kind, values = _packed(found)
                yield from pack_frame({**head, "rank": found.rank, "type": kind, "count": len(found.values)}, values)
                continue
            head = {**head, "rank": found.rank, "type": found.kind, "count": found.count}
            yield pack_head(head, found.count * (1 if found.kind == "b1" else 8))
            for part in found.parts:
                yield _bytes(part.astype("u1") if found.kind == "b1" else part)


def _packed(series: Series) -> tuple[str, Piece]:
    values = series.values
    if isinstance(values, list):
        return "json", json.dumps(values).encode()
    if series.kind == "b1":
        return "b1", _bytes(values.astype("u1"))
    return series.kind, _bytes(values)


def _column(name: str, kind: str, values: NDArray[Any]) -> list[Piece]:
    return pack_frame({"column": name, "type": kind, "count": len(values)}, _bytes(values.astype("<" + kind)))


def _bytes(values: NDArray[Any]) -> memoryview:
    """Return the array's bytes, copied only where they do not lie in one piece."""
    if not values.size:
        return memoryview(b"")
    whole = values if values.flags.c_contiguous else values.copy()
    return whole.data.cast("B")
