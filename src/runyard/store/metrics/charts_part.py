"""Charts: at most so many buckets of a numeric series, with exact minima and maxima."""

from __future__ import annotations

from dataclasses import dataclass

from runyard.core.errors import InvalidArgument
from runyard.store.base import STEP, TIME, Chart, Series
from runyard.store.metrics.charts import Blocks, gather, of_points
from runyard.store.metrics.chunks import Columns

MAX_WIDTH = 10_000
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Window:
    """The part of a series that is drawn: steps, or times in ns, `first` to `last`, both included."""

    x: str = STEP
    first: int | None = None
    last: int | None = None

    @property
    def low(self) -> int:
        return _LEAST if self.first is None else max(_LEAST, min(_MOST, self.first))

    @property
    def high(self) -> int:
        return _MOST if self.last is None else max(_LEAST, min(_MOST, self.last))

    def before(self, *, steps: int, times: int) -> Window:
        """Return the window over points to which so much is yet to be added."""
        shift = times if self.x == TIME else steps
        return Window(self.x, *(None if edge is None else edge - shift for edge in (self.first, self.last)))

    def cut(self, columns: Columns) -> Columns:
        """Return the points inside."""
        places = columns.times if self.x == TIME else columns.steps
        chosen = (places >= self.low) & (places <= self.high)
        if chosen.all():
            return columns
        assert not isinstance(columns.values, list)
        return Columns(columns.kind, columns.values[chosen], columns.steps[chosen], columns.times[chosen])


def chart_of_series(series: Series, window: Window, *, width: int) -> Chart:
    if isinstance(series.values, list):
        raise not_numeric(series.metric)
    columns = Columns(series.kind, series.values, series.steps, series.times_ns)
    return to_chart(of_points(window.cut(columns)), width)


def to_chart(blocks: Blocks, width: int) -> Chart:
    found = gather(blocks, max(1, min(width, MAX_WIDTH)))
    return Chart(
        first_step=found.first_step,
        last_step=found.last_step,
        first_time_ns=found.first_time,
        last_time_ns=found.last_time,
        minimum=found.minimum,
        maximum=found.maximum,
        last=found.last,
        count=found.count,
    )


def not_numeric(metric: str) -> InvalidArgument:
    return InvalidArgument(
        f"Metric `{metric}` cannot be drawn.",
        why="Among its values are some that are no numbers.",
        hint="Read its values instead, or log numbers and text under two names.",
    )
