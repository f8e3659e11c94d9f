"""Points of clients without a journal: what they send may come twice, and each point is stored once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.core.errors import InvalidArgument
from runyard.store.base import Points, SegmentPart
from runyard.store.metrics.arrivals import Arrivals
from runyard.store.metrics.chunks import F8, JSON, Columns, convert

if TYPE_CHECKING:
    from numpy.typing import NDArray

HTTP_WRITER = 1  # the external writer of all such points; those with a journal have far larger numbers
_POINT = np.dtype([("step", "<i8"), ("time", "<i8"), ("value", "<i8")])


def http_part(points: Sequence[Points]) -> SegmentPart:
    """Return the points as a part of the one segment that they all belong to."""
    return SegmentPart("http", 0, 0, 0, content=points)


def check_fits(run_id: str, arrivals: Arrivals) -> None:
    """Raises: InvalidArgument: the run has a metric of such a name that is no series."""
    for warning in arrivals.warnings:
        raise InvalidArgument(
            f"Run `{run_id}` cannot take a point: {warning['message']}", hint="Log it under another name."
        )


def without_known(columns: Columns, known: Sequence[Columns]) -> Columns:
    """Return the points that are not among `known`, each once, in their order."""
    if len(columns) == 1 and not known:
        return columns
    points = _points(columns)
    if len(points) == 1:  # sorting the known ones, as below, takes ten times as long
        is_known = any(other.kind != JSON and (_points(other) == points[0]).any() for other in known)
        return columns.part(0, 0) if is_known else columns
    fresh = np.zeros(len(points), dtype=bool)
    fresh[np.unique(points, return_index=True)[1]] = True
    for other in known:
        if other.kind != JSON:
            fresh &= ~np.isin(points, _points(other))
    if fresh.all():
        return columns
    values: Any = columns.values
    return Columns(columns.kind, values[fresh], columns.steps[fresh], columns.times[fresh])


def _points(columns: Columns) -> NDArray[Any]:
    points: NDArray[Any] = np.empty(len(columns), dtype=_POINT)
    points["step"], points["time"] = columns.steps, columns.times
    values: Any = convert(columns.values, columns.kind, F8)
    points["value"] = np.ascontiguousarray(np.asarray(values, dtype="<f8")).view("<i8")
    return points
