"""Charts: at most so many buckets of a numeric series, with exact minima and maxima."""

from __future__ import annotations

import numpy as np

from runyard.core.errors import InvalidArgument
from runyard.store.base import Chart, Series
from runyard.store.blocks import Blocks, gather, of_points
from runyard.store.chunks import Columns

MAX_WIDTH = 10_000


def chart_of_series(series: Series, *, width: int, first_step: int | None, last_step: int | None) -> Chart:
    if isinstance(series.values, list):
        raise not_numeric(series.metric)
    columns = Columns(series.kind, series.values, series.steps, series.times_ns)
    return to_chart(within(of_points(columns), first_step, last_step), width)


def within(blocks: Blocks, first_step: int | None, last_step: int | None) -> Blocks:
    """Return the blocks that lie in the range of steps as a whole."""
    chosen = np.ones(len(blocks), dtype=np.bool_)
    if first_step is not None:
        chosen &= blocks.first_step >= first_step
    if last_step is not None:
        chosen &= blocks.last_step <= last_step
    return blocks if chosen.all() else blocks.where(chosen)


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
