"""Searching 100,000 runs with 5 parameters and 5 metrics each: newest page, filter by metric with order, filter by tag.

    python benchmarks/store_100k.py [RUNS]

Each figure is the median of several calls of `RunStore.list_runs` (a page of 100 whole runs); the slowest is named too.
The reference is the same search in bare sqlite3 on the same file, without making runs of the rows.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))

from figures import report  # noqa: E402

from runyard.core.formats.filters import parse_filter  # noqa: E402
from runyard.core.records import Experiment, NewRun, Run, Workspace  # noqa: E402
from runyard.core.specs import EnvironmentSpec, RunSpec  # noqa: E402
from runyard.core.statuses import RunStatus  # noqa: E402
from runyard.store.base import MetricCondition, RunQuery  # noqa: E402
from runyard.store.rules import create  # noqa: E402
from runyard.store.sql.database import Insert, Session  # noqa: E402
from runyard.store.sql.rows import INSERT_LABELS, INSERT_RUN, LABELS, document_of, label_rows, microseconds  # noqa: E402
from runyard.store.sql.schema import run_metrics, series  # noqa: E402
from runyard.store.sqlite import SqliteStore  # noqa: E402
from runyard.store.text import to_microseconds  # noqa: E402

TARGET_MS = 50
ROUNDS = 15
BATCH = 5_000
EXPERIMENTS = 20
METRICS = ("loss", "accuracy", "val_loss", "val_accuracy", "seconds")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
WORKSPACE = "default"

LOW_LOSS = [MetricCondition("loss", "<", 0.5)]
LOWEST_LOSS = [MetricCondition("loss", "<", 0.1)]
LOW_LOSS_OF_NLP = parse_filter("metrics.loss < 0.1 and tags.team = nlp")
QUERIES: dict[str, RunQuery] = {
    "newest": RunQuery(WORKSPACE),
    "newest_of_experiment": RunQuery(WORKSPACE, experiment="experiment-7"),
    "metric_ordered": RunQuery(WORKSPACE, metrics=LOW_LOSS, order="metrics.loss", descending=False),
    "metric_rare": RunQuery(WORKSPACE, metrics=[MetricCondition("accuracy", ">", 0.9999)], order="metrics.loss"),
    "order_only": RunQuery(WORKSPACE, order="metrics.accuracy"),
    "experiment_ordered": RunQuery(WORKSPACE, experiment="experiment-7", order="metrics.loss", descending=False),
    "tag_common": RunQuery(WORKSPACE, tags={"team": "vision"}),
    "tag_rare": RunQuery(WORKSPACE, tags={"keep": "yes"}),
    "tag_and_metric": RunQuery(WORKSPACE, tags={"team": "nlp"}, metrics=LOWEST_LOSS, order="metrics.loss"),
    "parameter": RunQuery(WORKSPACE, parameters={"lr": "0.017"}),
    "failed": RunQuery(WORKSPACE, statuses=[RunStatus.FAILED]),
    "no_match": RunQuery(WORKSPACE, tags={"team": "nobody"}),
    "filter_and": RunQuery(WORKSPACE, where=LOW_LOSS_OF_NLP, order="metrics.loss"),
    "filter_rare": RunQuery(WORKSPACE, where=parse_filter("tags.keep = yes and not status = Failed")),
    "filter_or": RunQuery(WORKSPACE, where=parse_filter("tags.team = vision or metrics.accuracy > 0.99")),
    "filter_not": RunQuery(WORKSPACE, where=parse_filter("not tags.team = vision and metrics.loss")),
}  # fmt: skip

BARE = {
    "newest": "SELECT document FROM runs WHERE workspace_id = 1 AND child = 0 ORDER BY serial DESC LIMIT 101",
    "metric_ordered": "SELECT r.document FROM run_metrics m JOIN runs r ON r.serial = m.run_serial "
    "WHERE m.workspace_id = 1 AND m.name = 'loss' AND m.\"column\" = '' AND m.last < 0.5 AND m.child = 0 "
    "ORDER BY m.last, m.run_serial LIMIT 101",
    "tag_common": "SELECT r.document FROM run_labels l JOIN runs r ON r.serial = l.run_serial WHERE l.kind = 'tag' "
    "AND l.key = 'team' AND l.value = 'vision' AND r.child = 0 ORDER BY l.run_serial DESC LIMIT 101",
}


def main() -> int:
    with filled(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000) as (store, bare):
        measure(store, bare)
    return 0


@contextmanager
def filled(count: int) -> Iterator[tuple[SqliteStore, sqlite3.Connection]]:
    """Give a store that knows `count` runs, and a bare connection to its database."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        path = Path(folder) / "runyard.db"
        store = SqliteStore(path)
        started = time.perf_counter()
        fill(store, count)
        print(f"{count} runs in {time.perf_counter() - started:.0f} s, {path.stat().st_size / 1e6:.0f} MB")
        yield store, sqlite3.connect(path)
        store.close()


def measure(store: SqliteStore, bare: sqlite3.Connection) -> None:
    for name, query in QUERIES.items():
        found = len(store.list_runs(query).runs)
        times = rounds(lambda query=query: store.list_runs(query))
        note = f"slowest {max(times):.1f} ms, {found} runs"
        if name in BARE:
            text = BARE[name]
            plain = rounds(lambda text=text: bare.execute(text).fetchall())
            note += f", bare sqlite3 median {statistics.median(plain):.1f} ms"
        report(f"store.{name}", statistics.median(times), "ms", target=f"<= {TARGET_MS}", reference=note)


def rounds(call: Callable[[], Any]) -> list[float]:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return times


def fill(store: SqliteStore, count: int) -> None:
    """Write the runs in big transactions: rows as the store makes them, without its checks run by run."""
    store.put_workspace(Workspace("w", WORKSPACE, START))
    experiments = [store.put_experiment(WORKSPACE, f"experiment-{index}") for index in range(EXPERIMENTS)]
    draw = random.Random(1)
    for at in range(0, count, BATCH):
        batch = [make_run(draw, index, experiments[index % EXPERIMENTS]) for index in range(at, min(at + BATCH, count))]
        store._database.write(lambda session, at=at, batch=batch: insert(session, draw, at + 1, batch))


def make_run(draw: random.Random, index: int, experiment: Experiment) -> Run:
    arguments = ["--lr", f"{draw.randrange(1000) / 1000}", "--batch-size", str(2 ** draw.randrange(4, 10))]
    new = NewRun(
        key=f"key-{index}",
        id=f"{experiment.name}_{1767225600 + index}_{index:08x}",
        workspace=WORKSPACE,
        experiment=experiment.name,
        spec=RunSpec(
            script="train.py", arguments=arguments, environment=EnvironmentSpec(interpreter="/usr/bin/python3")
        ),
        status=RunStatus.FAILED if index % 1000 == 3 else RunStatus.COMPLETED,
        tags={"team": draw.choice(["vision", "nlp", "speech"]), **({"keep": "yes"} if index % 5000 == 7 else {})},
        properties={"azureml.git.commit": f"{draw.getrandbits(160):040x}"},
        parameters={
            "lr": arguments[1],
            "batch-size": arguments[3],
            "seed": str(index),
            "layers": str(draw.randrange(8)),
            "optimizer": draw.choice(["adam", "sgd"]),
        },
    )
    now = START + timedelta(seconds=index)
    run = create(new, number=index // EXPERIMENTS + 1, experiment=experiment, root_id=new.id, now=now)
    return replace(run, started_at=now, ended_at=now + timedelta(seconds=draw.randrange(20_000)))


def insert(session: Session, draw: random.Random, first: int, batch: Sequence[Run]) -> None:
    numbered = list(enumerate(batch, first))
    session.many(INSERT_RUN, [run_row(serial, run) for serial, run in numbered])
    for kind, field in LABELS.items():
        rows = [row for serial, run in numbered for row in label_rows(serial, kind, getattr(run, field))]
        session.many(INSERT_LABELS, rows)
    metrics = [row for serial, _ in numbered for row in metric_rows(draw, serial)]
    session.many(Insert(run_metrics, *metrics[0]), metrics)
    points = [series_row(row["id"]) for row in metrics]
    session.many(Insert(series, *points[0]), points)


def run_row(serial: int, run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "key": f"key-{serial}",
        "workspace_id": 1,
        "experiment_id": (serial - 1) % EXPERIMENTS + 1,
        "parent_serial": None,
        "child": 0,
        "status": run.status.value,
        "finished": 1,
        "type": run.type,
        "document": document_of(run),
        "name": run.display_name,
        "target": run.spec.target,
        "created_us": to_microseconds(run.created_at),
        "number": run.number,
        "submitted_by": run.submitted_by,
        "owner": run.owner,
        "started_us": microseconds(run.started_at),
        "ended_us": microseconds(run.ended_at),
    }


def metric_rows(draw: random.Random, serial: int) -> Iterator[dict[str, Any]]:
    for index, name in enumerate(METRICS):
        last = draw.random()
        yield {
            "id": (serial - 1) * len(METRICS) + index + 1,
            "run_serial": serial,
            "workspace_id": 1,
            "experiment_id": (serial - 1) % EXPERIMENTS + 1,
            "child": 0,
            "name": name,
            "column": "",
            "kind": "scalar",
            "server": 0,
            "rank": 0,
            "count": 100,
            "last": last,
            "minimum": 0.0,
            "maximum": 1.0,
            "last_value": repr(last),
            "last_attempt": 1,
            "last_time": 0,
            "file": None,
            "latest": last,
            "latest_step": 99,
            "latest_ms": 0,
        }


def series_row(metric_id: int) -> dict[str, Any]:
    return {
        "metric_id": metric_id,
        "rank": 0,
        "server": 0,
        "attempt": 1,
        "writer": "r0-1-00000000",
        "segment": 0,
        "wall_offset_ns": 0,
        "count": 100,
        "kinds": 1,
        "numbered": 1,
        "first_time": 0,
        "last_time": 0,
        "chunks": 0,
        "open_count": 0,
        "tail": b"\0" * 800,
    }


if __name__ == "__main__":
    sys.exit(main())
