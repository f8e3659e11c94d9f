"""The studio's table of 100,000 runs: windows at any place, sorted by any field, filtered, grouped.

    python benchmarks/run_table.py [RUNS]

`first`: nothing is kept yet, as after any write. `window`: any of 50 random windows of 100 rows with two columns while
nothing is written. The reference is bare sqlite3 reading 100 documents by primary key, which nothing here can beat.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))

from figures import report  # noqa: E402
from store_100k import WORKSPACE, filled, rounds  # noqa: E402

from runyard.core.formats.filters import Field, parse_filter  # noqa: E402
from runyard.store.base import RunQuery  # noqa: E402
from runyard.store.sql.table import Kept  # noqa: E402
from runyard.store.sqlite import SqliteStore  # noqa: E402

FIRST_MS, WINDOW_MS = 150, 60
ROUNDS = 7
COLUMNS = [Field("metrics", "loss"), Field("params", "lr")]
QUERIES = {
    "created": RunQuery(WORKSPACE),
    "metric": RunQuery(WORKSPACE, order="metrics.loss", descending=False),
    "parameter": RunQuery(WORKSPACE, order="params.lr"),
    "text": RunQuery(WORKSPACE, order="params.optimizer"),
    "status": RunQuery(WORKSPACE, order="status"),
    "experiment": RunQuery(WORKSPACE, order="experiment"),
    "duration": RunQuery(WORKSPACE, order="duration"),
    "number": RunQuery(WORKSPACE, order="number"),
    "filter": RunQuery(WORKSPACE, where=parse_filter("tags.team = vision and metrics.loss < 0.5")),
    "filter_sorted": RunQuery(WORKSPACE, where=parse_filter("not status = Failed"), order="metrics.accuracy"),
    "one_experiment": RunQuery(WORKSPACE, experiment="experiment-7", order="params.lr"),
}


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with filled(count) as (store, bare):
        measure(store, bare, count)
    return 0


def measure(store: SqliteStore, bare: sqlite3.Connection, count: int) -> None:
    draw = random.Random(2)
    keys = ",".join(str(draw.randrange(1, count)) for _ in range(100))
    plain = rounds(lambda: bare.execute(f"SELECT document FROM runs WHERE serial IN ({keys})").fetchall())
    note = f"bare sqlite3 by primary key {statistics.median(plain):.2f} ms"
    for name, query in QUERIES.items():
        firsts = [first(store, query) for _ in range(ROUNDS)]
        report(f"table.{name}_first", statistics.median(firsts), "ms", target=f"<= {FIRST_MS}", reference=note)
        total = store.read_table(query).total
        windows = [timed(store, query, draw.randrange(total)) for _ in range(50)]
        slowest = f"slowest {max(windows):.1f} ms of {total} runs, {note}"
        report(f"table.{name}_window", statistics.median(windows), "ms", target=f"<= {WINDOW_MS}", reference=slowest)
    for by in ("params.optimizer", "params.layers", "status", "experiment"):
        field = Field(*by.split(".")) if "." in by else Field(by)
        found = rounds(lambda field=field: store.group_runs(RunQuery(WORKSPACE), field))
        report(f"table.groups_by_{by}", statistics.median(found), "ms", target=f"<= {FIRST_MS}")
    found = rounds(lambda: store.list_columns(RunQuery(WORKSPACE)))
    report("table.columns", statistics.median(found), "ms", target=f"<= {FIRST_MS}")


def first(store: SqliteStore, query: RunQuery) -> float:
    store._kept = Kept(store._database.version)  # as if all tables had been written to
    return timed(store, query, 0)


def timed(store: SqliteStore, query: RunQuery, offset: int) -> float:
    started = time.perf_counter()
    store.read_table(query, columns=COLUMNS, offset=offset)
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    sys.exit(main())
