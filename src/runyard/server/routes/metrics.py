"""Routes of metrics: packed columns, and JSON only for values that are not numbers.

`draw_charts` answers many charts in one request, as a page draws them; a chart that fails has its error in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Optional

from fastapi import APIRouter, Query, Request, Response

from runyard.core.errors import InvalidArgument, RunyardError
from runyard.core.formats.frames import pack_frame, pack_head
from runyard.core.names import check_metric_name, is_system_metric
from runyard.core.records import MetricInfo
from runyard.server.http.answers import Piece, frames_answer, json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import BYTES, gives, sends, takes
from runyard.server.http.requests import parse, with_json
from runyard.store.base import ALL_RANKS, STEP, TIME, Chart, MetricSeries, Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


router = APIRouter(tags=["metrics"])
MAX_WIDTH = 10_000
HEAVY_POINTS = 1_000_000
Rank = Annotated[Optional[int], Query(ge=0, lt=1 << 31)]  # None: the lowest
RankOrWord = Annotated[Optional[str], Query(pattern=r"^(lowest|\d{1,9})$")]  # None: all, in order of time
Step = Annotated[Optional[int], Query(ge=-(1 << 63), lt=1 << 63)]
MOST_SERIES = 200
HEAVY_BUCKETS = 200_000
# Times in ms: what a browser's numbers hold without losing more than a part of a microsecond.
COLUMNS = ("first_step", "last_step", "first_ms", "last_ms", "minimum", "maximum", "last", "count")


@router.get("/runs/{run_id}/metrics")
@gives(list[MetricInfo])
def list_metrics(run_id: str, request: Request, name: Optional[str] = None, system: bool = False) -> Response:
    """List a run's metrics with last, least and greatest value; `system`: what its machine did instead."""
    call = call_of(request)
    call.readable_run(run_id)
    return json_answer(_asked_for(call.services.store, run_id, name, system=system))


@router.get("/runs/{run_id}/metrics/values")
@sends(BYTES)
def get_metric_values(
    run_id: str, request: Request, name: Optional[str] = None, rank: RankOrWord = None, system: bool = False
) -> Response:
    """Return all values of all series, one frame each, in the order the metrics were first logged.

    `rank`: a number, or `lowest` for the lowest rank that logged the metric; without it those of all ranks.
    """
    call = call_of(request)
    call.readable_run(run_id)
    store = call.services.store
    number = _number_of(rank)
    infos = _asked_for(store, run_id, name, system=system)
    infos = [info for info in infos if number in (None, ALL_RANKS) or number in info.ranks]
    pieces = (piece for info in infos for piece in _iter_frames(store, run_id, info, number))
    return frames_answer(pieces, is_heavy=sum(info.count * len(info.columns) for info in infos) > HEAVY_POINTS)


@router.get("/runs/{run_id}/metrics/series")
@sends(BYTES)
def get_metric_series(run_id: str, request: Request, name: str, column: str = "", rank: RankOrWord = None) -> Response:
    """Return steps, times and values of one series; `rank` as for all values."""
    call = call_of(request)
    call.readable_run(run_id)
    series = call.services.store.read_series(run_id, check_metric_name(name), column=column, rank=_number_of(rank))
    kind, values = _packed(series)
    pieces = _column("steps", "i8", series.steps) + _column("times", "i8", series.times_ns)
    return frames_answer(pieces + pack_frame({"column": "values", "type": kind, "count": len(series.values)}, values))


@router.get("/runs/{run_id}/metrics/chart")
@sends(BYTES)
def get_metric_chart(
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
    for name, values in vars(chart).items():
        pieces += _column(name, "f8" if values.dtype.kind == "f" else "i8", values)
    return frames_answer(pieces)


def check_width(width: int) -> None:
    if not 1 <= width <= MAX_WIDTH:
        raise InvalidArgument(f"A chart's width must be 1 to {MAX_WIDTH}, found {width}.")


def _asked_for(store: MetricSeries, run_id: str, name: Optional[str], *, system: bool) -> list[MetricInfo]:
    """Return the metric `name`; without a name those that were logged, or the system's."""
    found = store.list_metrics(run_id, name=_metric(name))
    return [info for info in found if name is not None or is_system_metric(info.name) == system]


def _number_of(rank: Optional[str]) -> Optional[int]:
    if rank is None:
        return ALL_RANKS
    return None if rank == "lowest" else int(rank)


def _metric(name: Optional[str]) -> Optional[str]:
    return None if name is None else check_metric_name(name)


def _iter_frames(store: MetricSeries, run_id: str, info: MetricInfo, rank: Optional[int]) -> Iterator[Piece]:
    """Yield a metric's frames, piece by piece where the store can read it so."""
    if info.kind == "artifact":
        head = {
            "metric": info.name,
            "kind": "artifact",
            "column": "",
            "rank": max(rank or 0, 0),
            "type": "json",
            "count": 0,
        }
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


@dataclass(frozen=True)
class SeriesRequest:
    """One line: `first` to `last` in steps, or in ns of the wall clock, both included."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    run: str
    metric: str
    column: str = ""
    rank: Optional[int] = None
    first: Optional[int] = None
    last: Optional[int] = None


@dataclass(frozen=True)
class ChartsBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    series: list[SeriesRequest] = field(default_factory=list)
    width: int = 1000
    x: str = STEP


@router.post("/charts")
@takes(ChartsBody)
@sends(BYTES)
async def draw_charts(request: Request) -> Response:
    """Return at most `width` buckets of each series, with exact least and greatest values, in the order asked for."""
    return await with_json(request, lambda body: _draw_all(call_of(request), parse(ChartsBody, body)))


def _draw_all(call: RequestContext, wanted: ChartsBody) -> Response:
    if not 1 <= len(wanted.series) <= MOST_SERIES:
        raise InvalidArgument(f"A request draws 1 to {MOST_SERIES} series, found {len(wanted.series)}.")
    check_width(wanted.width)
    if wanted.x not in (STEP, TIME):
        raise InvalidArgument(f"A chart's `x` is `{STEP}` or `{TIME}`, found {wanted.x[:40]!r}.")
    pieces = (piece for series in wanted.series for piece in _try_to_draw(call, series, wanted))
    return frames_answer(pieces, is_heavy=len(wanted.series) * wanted.width > HEAVY_BUCKETS)


def _try_to_draw(call: RequestContext, series: SeriesRequest, wanted: ChartsBody) -> list[Piece]:
    try:
        return _frame(_draw(call, series, wanted))
    except RunyardError as error:
        return pack_frame({"count": 0, "columns": [], "error": error.to_plain()})


def _draw(call: RequestContext, series: SeriesRequest, wanted: ChartsBody) -> Chart:
    call.require("read_run", series.run)
    return call.services.store.chart(
        series.run,
        check_metric_name(series.metric),
        column=series.column,
        rank=series.rank,
        width=wanted.width,
        x=wanted.x,
        first=series.first,
        last=series.last,
    )


def _frame(chart: Chart) -> list[Piece]:
    """Return the columns behind each other, all as 64-bit floats: a browser reads nothing else as fast."""
    columns: list[NDArray[Any]] = [
        chart.first_step,
        chart.last_step,
        chart.first_time_ns / 1e6,
        chart.last_time_ns / 1e6,
        chart.minimum,
        chart.maximum,
        chart.last,
        chart.count,
    ]
    body = b"".join(_floats(column).tobytes() for column in columns)
    return pack_frame({"count": len(chart.count), "columns": list(COLUMNS)}, body)


def _floats(column: NDArray[Any]) -> NDArray[np.float64]:
    return column.astype("<f8", copy=False)
