"""The gateway's rows of figures as metrics of the service's run, so that they are charted like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runyard.store.base import Points, RunStore, SegmentPart

_WRITER = "gateway"
_NOT_METRICS = ("row", "time")


def keep(store: RunStore, run_id: str, rows: Sequence[Mapping[str, float]]) -> None:
    """Store the rows behind those that are stored. It may be repeated with the same ones."""
    known = store.find_segment(run_id, 0, _WRITER, 0)
    mark = known.mark if known is not None else 0
    parts = []
    for row in rows:
        moment = int(row["time"] * 1e3)  # a gateway that lost its folder counts its rows anew
        if moment <= mark:
            continue
        times = np.array([int(row["time"] * 1e9)], dtype=np.int64)
        points = [
            Points(name, "f8", np.array([value], dtype=np.float64), times)
            for name, value in row.items()
            if name not in _NOT_METRICS
        ]
        parts.append(SegmentPart(_WRITER, 0, mark, moment, content=points))
        mark = moment
    if parts:
        store.ingest(run_id, 0, parts)
