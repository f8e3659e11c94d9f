"""Points of imported runs: which of them a series lacks. Pure; every store uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from runyard.core.errors import InvalidArgument
from runyard.store.base import ArtifactMetric, ImportedPart, Points, Rows, SegmentPart
from runyard.store.metrics.arrivals import ROWS, Arrival, Arrivals, SeriesKey
from runyard.store.metrics.chunks import JSON, Columns
from runyard.store.metrics.http import HTTP_WRITER, without_known
from runyard.store.text import clean

SOURCE = (HTTP_WRITER, 0)  # external writer and attempt of all imported points
WRITER = "import"


class ImportedPoints:
    """Gathers what the parts of one run bring.

    `count` tells how many points a series has, `read` gives them; `count_files` tells how many files a metric had.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        count: Callable[[SeriesKey], int],
        read: Callable[[SeriesKey], Columns],
        count_files: Callable[[str], int],
    ) -> None:
        self._arrivals = arrivals
        self._count = count
        self._read = read
        self._count_files = count_files
        self._counts: dict[str, int] = {}
        self.added = 0
        self.notes: list[str] = []

    def add(self, parts: Sequence[ImportedPart]) -> None:
        """Gather the points and rows of the parts that are not stored yet.

        Raises:
            InvalidArgument: a part begins behind the end of what is stored.
        """
        for part in parts:
            item = part.content
            if isinstance(item, ArtifactMetric):
                if part.start >= self._count_files(clean(item.metric)):
                    self._gather(item, 1)
                continue
            key = SeriesKey(clean(item.metric), ROWS, 0, 0, WRITER, 0)
            count = self._counts.get(key.metric)
            if count is None:
                count = self._count(key)
            if part.start > count:
                raise InvalidArgument(
                    f"Points of the metric `{item.metric}` are missing: {count} are stored, and the next come after "
                    f"{part.start}.",
                    hint="Import again.",
                )
            fresh = self._fresh(item, key, part.start, count - part.start)
            self._counts[key.metric] = max(count, part.start + len(item.times))
            self._gather(fresh, len(fresh.times))
        self.notes += [warning["message"] for warning in self._arrivals.warnings]

    def _gather(self, item: Points | Rows | ArtifactMetric, count: int) -> None:
        before = len(self._arrivals.warnings)
        self._arrivals.add(SegmentPart(WRITER, 0, 0, 0, content=[item]))
        if len(self._arrivals.warnings) == before:
            self.added += count

    def _fresh(self, item: Points | Rows, key: SeriesKey, start: int, known: int) -> Points | Rows:
        """Return the item without its first `known` points, if those are what is stored."""
        if known <= 0:
            return item
        if isinstance(item, Rows):
            columns = {name: values[known:] for name, values in item.columns.items()}
            return replace(item, columns=columns, times=item.times[known:])
        new, old = columns_of(item), self._read(key)
        overlap = min(known, len(new))
        if new.kind == JSON or old.kind == JSON or _is_same(new.part(0, overlap), old.part(start, start + overlap)):
            return _points(item, new.part(overlap, len(new)))
        fresh = without_known(new, [old])
        self.notes.append(
            f"metric `{item.metric[:200]}`: its earlier points are others than before; those stay, {len(fresh)} were "
            "added"
        )
        return _points(item, fresh)


def columns_of(points: Points) -> Columns:
    """Return points as columns; those without a step are numbered from 0."""
    arrival = Arrival(0)
    arrival.add(points)
    return arrival.columns(0)


def _points(item: Points, columns: Columns) -> Points:
    return Points(item.metric, columns.kind, columns.values, columns.times, columns.steps)


def _is_same(first: Columns, second: Columns) -> bool:
    if len(first) != len(second):
        return False
    values: list[Any] = [np.asarray(columns.values, dtype="<f8").view("<i8") for columns in (first, second)]
    return (
        np.array_equal(first.steps, second.steps)
        and np.array_equal(first.times, second.times)
        and np.array_equal(*values)
    )
