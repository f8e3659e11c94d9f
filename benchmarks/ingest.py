"""Ten million points of five interleaved metrics: journal → HTTP → store → values read back, and a chart of them.

    python benchmarks/ingest.py [POINTS]

The private server is a process of its own; this process is the supervisor that ships and the client that reads. Every
metric's count, sum, minimum and maximum are checked against the journal.
"""

from __future__ import annotations

import math
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from figures import report
from private_home import private_home

from runyard.client.client import Client
from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
from runyard.core.formats import journal
from runyard.core.names import make_run_id, make_uuid
from runyard.core.records import NewRun

METRICS = ["loss", "accuracy", "learning_rate", "gradient_norm", "reward"]
REQUEST_BYTES = 8 << 20  # what a supervisor puts into one request
CHART_WIDTH = 1000
CELLS = np.dtype(
    [("kind", "u1"), ("flags", "u1"), ("zero", "<u2"), ("name", "<u4"), ("step", "<i8"), ("t", "<i8"), ("value", "<f8")]
)


def main(points: int) -> None:
    with private_home(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r0-1-00000000.0.journal"
        start_of_cells = write_journal(path, points)
        scan_s = time_scan(path, start_of_cells)
        bare = time_bare_sqlite(Path(folder) / "bare.db")
        reference = f"numpy reads and sums the journal in {scan_s:.2f} s; bare sqlite3 inserts {bare:,.0f} rows/s"
        client = connect(read_settings())
        run_id = new_run(client)

        began = time.perf_counter()
        ship(client, run_id, path)
        stored = time.perf_counter()
        read = {series.metric: series.to_list() for series in client.runs.metric_values(run_id)}
        done = time.perf_counter()

        check(read, path, start_of_cells)
        print(f"shipped and stored in {stored - began:.2f} s, read in {done - stored:.2f} s")
        report("ingest.store", points / (stored - began), "points/s", target=">= 1.5e6", reference=reference)
        report("ingest.end_to_end", points / (done - began), "points/s", target=">= 1e6", reference=reference)
        time_chart(client, run_id, read[METRICS[0]])


def write_journal(path: Path, points: int) -> int:
    """Write what a script's `run.log()` calls would have left; return the offset of the first number."""
    head = journal.pack_long(
        journal.HEADER,
        {
            "format": 1,
            "run": "r",
            "attempt": 1,
            "writer": "r0-1-00000000",
            "segment": 0,
            "rank": 0,
            "wall_ns": 1,
            "t": 0,
        },
    )
    names = b"".join(journal.pack_long(journal.NAME, {"id": i, "name": name}) for i, name in enumerate(METRICS))
    random = np.random.default_rng(7)
    with path.open("wb") as file:
        file.write(head + names)
        for start in range(0, points, 1_000_000):
            count = min(1_000_000, points - start)
            cells = np.zeros(count, dtype=CELLS)
            at = np.arange(start, start + count)
            cells["kind"], cells["name"], cells["t"] = journal.FLOAT, at % len(METRICS), at * 997
            cells["value"] = np.exp(-at / points) + random.normal(0, 0.05, count)
            file.write(cells.tobytes())
    return len(head + names)


def time_scan(path: Path, start: int) -> float:
    began = time.perf_counter()
    cells = np.fromfile(path, dtype=CELLS, offset=start)
    for code in range(len(METRICS)):
        cells["value"][cells["name"] == code].sum()
    return time.perf_counter() - began


def time_bare_sqlite(path: Path, rows: int = 200_000) -> float:
    """Return rows per second of the plainest way: one row a point, a thousand rows a commit."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE points (metric INTEGER, step INTEGER, time INTEGER, value REAL)")
    began = time.perf_counter()
    for start in range(0, rows, 1000):
        batch = [(at % 5, at, at * 997, at * 0.5) for at in range(start, start + 1000)]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?)", batch)
        connection.execute("COMMIT")
    took = time.perf_counter() - began
    connection.close()
    return rows / took


def new_run(client: Client) -> str:
    """Make a run that nobody launches, so that only the pipeline is measured."""
    run_id = make_run_id("ingest")
    new = NewRun(key=make_uuid(), id=run_id, workspace="default", experiment="ingest", type=None)
    client.runs.create(new, launch=False)
    return run_id


def ship(client: Client, run_id: str, path: Path) -> None:
    """Send the journal as a supervisor does, going on from where the server's mark is."""
    size, offset = path.stat().st_size, 0
    with path.open("rb") as file:
        while offset < size:
            file.seek(offset)
            head = {"kind": "journal", "writer": "r0-1-00000000", "segment": 0, "offset": offset}
            answer = client.runs.ship(run_id, [(head, file.read(REQUEST_BYTES))])
            mark = answer.marks[0].offset
            assert mark > offset, f"nothing was stored at {offset}"
            offset = mark


def check(read: dict[str, list[float]], path: Path, start: int) -> None:
    cells = np.fromfile(path, dtype=CELLS, offset=start)
    assert list(read) == METRICS, list(read)
    for code, name in enumerate(METRICS):
        logged, found = cells["value"][cells["name"] == code], np.array(read[name])
        assert len(found) == len(logged), f"{name}: {len(found)} of {len(logged)} points"
        assert math.fsum(found) == math.fsum(logged), f"{name}: the sum differs"
        assert (found.min(), found.max()) == (logged.min(), logged.max()), f"{name}: minimum or maximum differs"
        assert np.array_equal(found, logged), f"{name}: the order differs"
    print(f"{len(cells):,} points: count, sum, minimum, maximum and order are those of the journal")


def time_chart(client: Client, run_id: str, values: list[float]) -> None:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        chart = client.runs.chart(run_id, METRICS[0], width=CHART_WIDTH)
        times.append(time.perf_counter() - began)
    assert (min(chart["minimum"]), max(chart["maximum"])) == (min(values), max(values)), "the chart is not exact"
    assert sum(chart["count"]) == len(values)
    buckets = f"{len(chart['minimum'])} buckets of {len(values):,} points, median of 5"
    report("ingest.chart", sorted(times)[2] * 1000, "ms", target="<= 100", reference=buckets)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
