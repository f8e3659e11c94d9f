"""10 million points of 5 interleaved metrics in the store: how fast they go in, come out, and are drawn.

    python benchmarks/metrics_chart.py [POINTS]

The chart of 1,000 pixels is compared with numpy on the raw values, bucket by bucket. The references are a bare sqlite3
loop that writes the same columns as uncompressed blobs, and numpy's own minimum and maximum over the raw values.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))

from figures import report  # noqa: E402

from runyard.core.records import NewRun, Workspace  # noqa: E402
from runyard.store.base import Chart, Points, RunStore, SegmentPart  # noqa: E402
from runyard.store.sqlite import SqliteStore  # noqa: E402

METRICS = ("loss", "accuracy", "val_loss", "grad_norm", "lr")
BATCH = 500_000  # points of all metrics in one call
WIDTH = 1000
ROUNDS = 9
RUN = "run"


def main() -> int:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    rows = total // len(METRICS)
    draw = np.random.default_rng(1)
    values = {name: np.cumsum(draw.normal(size=rows)) for name in METRICS}
    times = np.cumsum(draw.integers(500, 4000, size=rows))
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        bare = seconds(lambda: write_bare(Path(folder) / "bare.db", values, times))
        store = SqliteStore(Path(folder) / "runyard.db")
        store.put_workspace(Workspace("w", "default", datetime.now(timezone.utc)))
        store.create_run(NewRun("key", RUN, "default", "e"))
        written = seconds(lambda: ingest(store, values, times))
        report(
            "store.ingest", total / written, "points/s", target=">= 3e6", reference=f"bare sqlite3 {total / bare:.3g}"
        )
        read = seconds(lambda: check_series(store, values))
        report("store.read", read, "s", target="<= 2", reference=f"{total} points compared with what was logged")
        draw_charts(store, values)
        store.close()
    return 0


def ingest(store: RunStore, values: dict[str, NDArray[np.float64]], times: NDArray[np.int64]) -> None:
    step, offset = BATCH // len(METRICS), 0
    for at in range(0, len(times), step):
        span = slice(at, at + step)
        content = [Points(name, "f8", series[span], times[span]) for name, series in values.items()]
        end = offset + sum(len(item.times) for item in content) * 32
        store.ingest(RUN, 1, [SegmentPart("r0-1-00000000", 0, offset, end, content=content)])
        offset = end


def write_bare(path: Path, values: dict[str, NDArray[np.float64]], times: NDArray[np.int64]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE chunks (id INTEGER PRIMARY KEY, steps BLOB, times BLOB, data BLOB)")
    step = BATCH // len(METRICS)
    for at in range(0, len(times), step):
        connection.execute("BEGIN IMMEDIATE")
        for series in values.values():
            for start in range(at, min(at + step, len(times)), 4096):
                span = slice(start, min(start + 4096, at + step, len(times)))
                steps = np.arange(span.start, span.stop)
                row = (steps.tobytes(), times[span].tobytes(), series[span].tobytes())
                connection.execute("INSERT INTO chunks (steps, times, data) VALUES (?, ?, ?)", row)
        connection.execute("COMMIT")
    connection.close()


def check_series(store: RunStore, values: dict[str, NDArray[np.float64]]) -> None:
    for name, expected in values.items():
        found = store.read_series(RUN, name)
        assert np.array_equal(np.asarray(found.values), expected), f"{name} came back changed"


def draw_charts(store: RunStore, values: dict[str, NDArray[np.float64]]) -> None:
    wrong = 0
    times: list[float] = []
    zooms: list[float] = []
    for name, series in values.items():
        for _ in range(ROUNDS):
            times.append(seconds(lambda name=name: store.chart(RUN, name, width=WIDTH)) * 1000)
        wrong += count_wrong(store.chart(RUN, name, width=WIDTH), series)
        first, last = len(series) // 3, len(series) // 3 + len(series) // 50
        zoom = lambda name=name, first=first, last=last: store.chart(  # noqa: E731
            RUN, name, width=WIDTH, first=first, last=last
        )
        zooms.append(seconds(zoom) * 1000)
        wrong += count_wrong(zoom(), series[first : last + 1])
    raw = min(seconds(lambda: (np.min(values["loss"]), np.max(values["loss"]))) for _ in range(5)) * 1000
    note = f"median {statistics.median(times):.1f} ms; numpy min and max of the raw values {raw:.1f} ms"
    report("store.chart", max(times), "ms", target="<= 100", reference=note)
    report(
        "store.chart_zoomed", max(zooms), "ms", target="<= 100", reference="a fiftieth of the series, point by point"
    )
    report("store.chart_wrong_buckets", wrong, "buckets", target="== 0", reference="numpy on the raw values")


def count_wrong(chart: Chart, values: NDArray[np.float64]) -> int:
    """Return how many buckets differ from the points they cover; a point that no bucket covers counts too."""
    ends = np.cumsum(chart.count)
    starts = ends - chart.count
    if ends[-1] != len(values) or len(chart.count) > WIDTH:
        return len(values)
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return int(np.sum((low != chart.minimum) | (high != chart.maximum) | (values[ends - 1] != chart.last)))


def seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
