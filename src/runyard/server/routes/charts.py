"""Many charts in one request, as a page draws them: packed columns, and an error in the place of a chart that fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument, RunyardError
from runyard.core.formats.frames import pack_frame
from runyard.core.names import check_metric_name
from runyard.server.http.answers import Piece, frames_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, with_json
from runyard.server.routes.metrics import check_width
from runyard.store.base import STEP, TIME, Chart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

router = APIRouter(prefix="/charts", tags=["metrics"])
MOST_SERIES = 200
HEAVY_BUCKETS = 200_000
# Times in ms: what a browser's numbers hold without losing more than a part of a microsecond.
COLUMNS = ("first_step", "last_step", "first_ms", "last_ms", "minimum", "maximum", "last", "count")


@dataclass(frozen=True)
class SeriesWish:
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

    series: list[SeriesWish] = field(default_factory=list)
    width: int = 1000
    x: str = STEP


@router.post("")
@takes(ChartsBody)
async def draw_charts(request: Request) -> Response:
    """Return at most `width` buckets of each series, with exact least and greatest values, in the order asked for."""
    return await with_json(request, lambda body: _draw_all(call_of(request), parse(ChartsBody, body)))


def _draw_all(call: Call, wanted: ChartsBody) -> Response:
    if not 1 <= len(wanted.series) <= MOST_SERIES:
        raise InvalidArgument(f"A request draws 1 to {MOST_SERIES} series, found {len(wanted.series)}.")
    check_width(wanted.width)
    if wanted.x not in (STEP, TIME):
        raise InvalidArgument(f"A chart's `x` is `{STEP}` or `{TIME}`, found {wanted.x[:40]!r}.")
    pieces = (piece for wish in wanted.series for piece in _try_to_draw(call, wish, wanted))
    return frames_answer(pieces, is_heavy=len(wanted.series) * wanted.width > HEAVY_BUCKETS)


def _try_to_draw(call: Call, wish: SeriesWish, wanted: ChartsBody) -> list[Piece]:
    try:
        return _frame(_draw(call, wish, wanted))
    except RunyardError as error:
        return pack_frame({"count": 0, "columns": [], "error": error.to_plain()})


def _draw(call: Call, wish: SeriesWish, wanted: ChartsBody) -> Chart:
    call.may("read_run", wish.run)
    return call.services.store.chart(
        wish.run,
        check_metric_name(wish.metric),
        column=wish.column,
        rank=wish.rank,
        width=wanted.width,
        x=wanted.x,
        first=wish.first,
        last=wish.last,
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
