"""MLflow's search of runs over REST: a page of 100 runs among 100,000, as a client's connection waits for it.

    python benchmarks/mlflow_search.py [RUNS]

The runs have 5 parameters and 5 metrics each, in 20 experiments that are all searched. Each figure is the median of
several requests over one connection; the slowest is named too, and the CPU time of the server. The reference is the
first page without a filter.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mlflow_rest import Connection
from store_100k import EXPERIMENTS, WORKSPACE, fill

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the servers that the tests have

from figures import report  # noqa: E402

from runyard.client.private_server import find  # noqa: E402
from runyard.core.config.paths import database_file  # noqa: E402
from runyard.core.config.settings import read_settings  # noqa: E402
from runyard.store.sqlite import SqliteStore  # noqa: E402
from tests.mlflow.servers import runyard_server  # noqa: E402

TARGET_MS = 50
ROUNDS = 15
PAGE = 100
BEST = ["metrics.accuracy DESC"]
COMMON = "metrics.loss < 0.5 and params.optimizer = 'adam'"
SEARCHES: dict[str, tuple[str, list[str]]] = {
    "newest": ("", []),
    "by_metric": ("", BEST),
    "by_parameter": ("", ["params.lr"]),
    "common": (COMMON, BEST),
    "common_newest": (COMMON, []),
    "common_by_its_metric": (COMMON, ["metrics.loss DESC"]),
    "common_by_parameter": (COMMON, ["params.lr", "metrics.loss"]),
    "a_tenth_of_a_half": ("metrics.loss < 0.1 and params.optimizer = 'adam'", BEST),
    "three_conditions": ("metrics.loss < 0.1 and params.layers = '3' and tags.team = 'nlp'", BEST),
    "rare_metric": ("metrics.loss < 0.001 and params.optimizer = 'adam'", BEST),
    "rare_parameter": ("params.lr = '0.017' and metrics.loss < 0.5", BEST),
    "two_metrics": ("metrics.loss < 0.03 and metrics.val_loss < 0.03", BEST),
    "unequal": ("params.optimizer != 'adam' and metrics.loss < 0.5", ["metrics.loss DESC"]),
    "like": ("params.seed LIKE '%777' and metrics.loss < 0.5", BEST),
    "since": ("attributes.start_time > 1767300000000 and metrics.loss < 0.1", ["attributes.start_time"]),
    "failed": ("attributes.status = 'FAILED' and metrics.loss > 0.1", BEST),
    "none": ("params.optimizer = 'none' and metrics.loss < 0.5", BEST),
}


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ry-search-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        database = database_file(home)
        database.parent.mkdir(mode=0o700)
        store = SqliteStore(database)
        fill(store, count)
        store.close()
        with runyard_server(home) as server:
            client = find(read_settings({**os.environ, "RUNYARD_HOME": str(home)}))
            assert client is not None
            measure(Connection(server, WORKSPACE), client.server.info().pid)


def measure(connection: Connection, pid: int) -> None:
    found = connection.ask("POST", "experiments/search", {"max_results": 1000})["experiments"]
    ids = [experiment["experiment_id"] for experiment in found if experiment["experiment_id"] != "0"]
    assert len(ids) == EXPERIMENTS, found
    plain = 0.0
    for name, (text, orders) in SEARCHES.items():
        fields = {"experiment_ids": ids, "max_results": PAGE, "filter": text, "order_by": orders}
        runs = len(ask(connection, fields).get("runs", []))
        times, cpu_before_s = [], cpu_seconds(pid)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            ask(connection, fields)
            times.append((time.perf_counter() - began) * 1000)
        median = statistics.median(times)
        plain = plain or median
        cpu_ms = (cpu_seconds(pid) - cpu_before_s) / ROUNDS * 1000
        note = f"slowest {max(times):.1f} ms, CPU {cpu_ms:.0f} ms, {runs} runs, without a filter {plain:.1f} ms"
        report(f"mlflow_search.{name}", median, "ms", target=f"<= {TARGET_MS}", reference=note)


def ask(connection: Connection, fields: dict[str, object]) -> Any:
    return connection.ask("POST", "runs/search", fields)


def cpu_seconds(pid: int) -> float:
    """Return what a process has used."""
    facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
