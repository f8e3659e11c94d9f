"""Many live runs on one server: each ships metrics and log lines and sends heartbeats while pages are read.

    python benchmarks/live_runs.py [RUNS [ROUNDS [SECONDS PER ROUND]]]

The private server is a process of its own. This process is the supervisors: one connection and one token per run, a
shipment of ten points and a log line every round, and a heartbeat. Every point and byte is checked at the end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, List

from runyard.client.client import Client
from runyard.client.private_server import connect
from runyard.client.transport import Transport
from runyard.core.config.paths import database_file
from runyard.core.config.settings import Settings, read_settings
from runyard.core.formats import journal
from runyard.core.names import make_run_id, make_uuid
from runyard.core.records import Mark, NewRun
from runyard.core.statuses import RunStatus
from runyard.engine.state.spool import hash_token, mint_run_token
from runyard.store import open_store

POINTS = 10
THREADS = 32
WRITER = "r0-1-00000000"
LOG = "user_logs/std_log.txt"
LINE = b"one line of a training script's output, as long as such lines are\n"


@dataclass
class Load:
    """What came of it; times in seconds."""

    runs: int
    writes: List[float] = field(default_factory=list)
    pages: List[float] = field(default_factory=list)
    errors: List[str] = field(default_factory=list)
    rss_bytes: int = 0
    cpu_s: float = 0.0  # of the server, while the runs lived

    def timed(self, times: List[float], call: Callable[[], Any]) -> None:
        began = time.perf_counter()
        try:
            call()
        except Exception as error:
            self.errors.append(repr(error))
        times.append(time.perf_counter() - began)


class LiveRun:
    """One run as its supervisor sees it."""

    def __init__(self, client: Client, run_id: str, token: str) -> None:
        self.id = run_id
        self.client = Client(Transport(replace(client.address, token=token)))
        self.offset = 0
        self.lines = 0
        self.points = 0

    def ship(self) -> None:
        data = b"" if self.offset else self._head()
        for _ in range(POINTS):
            data += journal.pack_number(journal.FLOAT, 0, 0, 1, 0, self.points, float(self.points))
            self.points += 1
        head = {"kind": "journal", "writer": WRITER, "segment": 0, "offset": self.offset}
        log = {"kind": "log", "name": LOG, "offset": self.lines * len(LINE)}
        answer = self.client.runs.ship(self.id, [(head, data), (log, LINE)])
        self.offset += len(data)
        self.lines += 1
        assert [mark.offset for mark in answer.marks] == [self.offset]

    def report(self, status: RunStatus) -> None:
        is_end = status.is_terminal
        marks = [Mark(WRITER, 0, self.offset)] if is_end else []
        logs = {LOG: self.lines * len(LINE)} if is_end else {}
        self.client.runs.state(self.id, 1, status, marks=marks, logs=logs)

    def _head(self) -> bytes:
        head = {"format": 1, "run": self.id, "attempt": 1, "writer": WRITER, "segment": 0, "rank": 0}
        name = journal.pack_long(journal.NAME, {"id": 1, "name": "loss"})
        return journal.pack_long(journal.HEADER, {**head, "wall_ns": 1, "t": 0}) + name


def live_runs(settings: Settings, *, runs: int, rounds: int, round_s: float) -> Load:
    """Keep so many runs alive for so many rounds; raise AssertionError when anything of them is not stored right."""
    client = connect(settings)
    load = Load(runs)
    made = start(client, settings, runs)
    over = threading.Event()
    with ThreadPoolExecutor(max_workers=THREADS + 1) as pool:
        reader = pool.submit(read_pages, client, load, over, made)
        pid = client.server.info().pid
        began_s = cpu_of(pid)
        for each in [pool.submit(live, load, made[at::THREADS], rounds, round_s) for at in range(THREADS)]:
            each.result()
        load.rss_bytes, load.cpu_s = rss_of(pid), cpu_of(pid) - began_s
        over.set()
        reader.result()
        list(pool.map(lambda run: run.report(RunStatus.COMPLETED), made))
    check(client, made)
    for run in made:
        run.client.transport.close()
    return load


def start(client: Client, settings: Settings, count: int) -> List[LiveRun]:
    """Make runs that nobody watches, and their first attempts with tokens as hand-over does."""
    store = open_store(database_file(settings.home))
    made = []
    for _ in range(count):
        new = NewRun(make_uuid(), make_run_id("live"), "default", "live", type=None)
        run_id, token = client.runs.create(new, launch=False).run.id, mint_run_token()
        store.start_attempt(run_id, token_hash=hash_token(token))
        made.append(LiveRun(client, run_id, token))
    store.close()
    return made


def live(load: Load, runs: List[LiveRun], rounds: int, round_s: float) -> None:
    for run in runs:
        run.report(RunStatus.RUNNING)
    next_at = time.monotonic()
    for _ in range(rounds):
        for run in runs:
            load.timed(load.writes, run.ship)
            load.timed(load.writes, lambda run=run: run.client.runs.heartbeat(run.id, 1))  # type: ignore[misc]
        next_at += round_s
        time.sleep(max(0.0, next_at - time.monotonic()))


def read_pages(client: Client, load: Load, over: threading.Event, runs: List[LiveRun]) -> None:
    at = 0
    while not over.wait(0.2):
        at = (at + 1) % len(runs)
        load.timed(load.pages, lambda: client.runs.list("default", limit=100))
        load.timed(load.pages, lambda at=at: client.runs.metrics(runs[at].id))  # type: ignore[misc]


def check(client: Client, runs: List[LiveRun]) -> None:
    for run in runs:
        found = client.runs.get(run.id)
        assert found.status is RunStatus.COMPLETED, (run.id, found.status, found.error)
        assert RunStatus.NOT_RESPONDING not in [phase.status for phase in found.timeline], run.id
        assert found.warnings == [], (run.id, found.warnings)
        assert [(info.name, info.count, info.last) for info in client.runs.metrics(run.id)] == [
            ("loss", run.points, float(run.points - 1))
        ], run.id
        sizes = {file.name: file.size for file in client.runs.files(run.id)}
        assert sizes == {LOG: run.lines * len(LINE)}, (run.id, sizes)


def rss_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def p99(times: List[float]) -> float:
    return sorted(times)[max(0, int(len(times) * 0.99) - 1)]


def main(runs: int = 100, rounds: int = 20, round_s: int = 1) -> None:
    from figures import report
    from private_home import private_home

    with private_home():
        load = live_runs(read_settings(), runs=runs, rounds=rounds, round_s=round_s)
    for error in load.errors[:5]:
        print(error)
    what = f"{runs} live runs, {len(load.writes)} writes"
    report("live_runs.errors", len(load.errors), "errors", target="== 0", reference=what)
    report("live_runs.write_p99", p99(load.writes) * 1e3, "ms", target="<= 250", reference=what)
    report("live_runs.page_p99", p99(load.pages) * 1e3, "ms", target="<= 300", reference=f"{len(load.pages)} reads")
    report("live_runs.cpu", load.cpu_s / len(load.writes) * 1e3, "ms/write", reference="CPU time of the server")
    report("live_runs.rss", load.rss_bytes / 1e6, "MB", target="<= 500", reference="the server's resident memory")


if __name__ == "__main__":
    main(*[int(word) for word in sys.argv[1:]])
