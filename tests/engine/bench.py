"""An engine on a memory store with a fake backend and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from runyard.artifacts.memory import MemoryStore
from runyard.compute.base import ComputeBackend
from runyard.core.config.settings import Settings
from runyard.core.formats import journal
from runyard.core.formats.frames import iter_frames, join_frames
from runyard.core.machine.gpus import Gpu
from runyard.core.names import make_uuid
from runyard.core.records import NewRun, Run, Workspace
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.engine import Engine
from runyard.engine.ingest.ship import ShipAnswer
from runyard.engine.runs.reports import StateReport
from runyard.engine.state.releases import CallThreads
from runyard.runtime.bundle import Bundle
from runyard.store import open_store
from runyard.testing.compute_backend import FakeBackend

WRITER = "r0-1-aaaa"


class HandClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wrong = timedelta()  # how far the wall clock is off

    def jump(self, *, days: float) -> None:
        self.wrong += timedelta(days=days)

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=self.seconds) + self.wrong


class Bench:
    """One home. `restart` is a server that was killed and started again; the store stays.

    `cluster`: the name of a target besides `local`, whose nodes are other machines.
    """

    def __init__(
        self,
        home: Path,
        *,
        local_runs: int = 0,
        gpus: int = 0,
        gpu_devices: str = "",
        cluster: str = "",
        database: str | Path = "memory:",
    ) -> None:
        self.clock = HandClock()
        self.store = open_store(database)
        self.artifacts = MemoryStore()
        self.backend = FakeBackend()
        self.cluster = FakeBackend()
        self.is_team = bool(cluster)  # other machines reach this server
        self.backends = {"local": self.backend, **({cluster: self.cluster} if cluster else {})}
        self.settings = Settings(home=home, local_runs=local_runs, gpu_devices=gpu_devices)
        self.gpus = [Gpu(index, f"GPU-{index}", "a GPU") for index in range(gpus)]
        self.changes: list[str] = []
        self.store.put_workspace(Workspace(id=make_uuid(), name="default", created_at=self.clock.now()))
        self.engine = self._engine()

    def make_backend(self, kind: str, settings: Settings, options: Mapping[str, Any]) -> ComputeBackend:
        raise AssertionError(f"this bench has no {kind}")

    def _engine(self) -> Engine:
        engine = Engine(
            settings=self.settings,
            store=self.store,
            artifacts=self.artifacts,
            address={"kind": "unix", "path": "/s", "token": ""},
            node_address={"kind": "tcp", "host": "server", "port": 8787, "token": ""} if self.is_team else None,
            backends=self.backends,
            make_backend=self.make_backend,
            clock=self.clock,
            threads=CallThreads(0),
            on_change=self.changes.append,
            on_log=self.changes.append,
            find_gpus=lambda: self.gpus,
        )
        engine.context.addresses.bundles._made = Bundle("b" * 64, b"")  # packing our code would take longer than a test
        engine.start(thread=False)
        return engine

    def restart(self) -> None:
        self.engine = self._engine()

    def pass_time(self, seconds: float) -> None:
        """Move the clock and let the loop do one round, as it does every second."""
        while seconds > 0:
            step = min(1.0, seconds)
            self.clock.seconds += step
            seconds -= step
            self.engine.loop.tick()

    def new(self, run_id: str = "exp_1", **changes: Any) -> NewRun:
        spec = RunSpec(script="train.py", arguments=["--alpha", "0.5"])
        new = NewRun(key=f"key-{run_id}", id=run_id, workspace="default", experiment="exp", spec=spec)
        return replace(new, **changes)

    def submit(self, run_id: str = "exp_1", **changes: Any) -> Run:
        return self.engine.submit(self.new(run_id, **changes)).run

    def run(self, run_id: str = "exp_1") -> Run:
        return self.store.get_run(run_id)

    def report(self, status: RunStatus, run_id: str = "exp_1", *, attempt: int = 1, **more: Any) -> Run:
        return self.engine.report(run_id, StateReport(attempt=attempt, status=status, **more))

    def ship(
        self,
        *frames: tuple[dict[str, Any], bytes],
        run_id: str = "exp_1",
        attempt: int = 1,
        external_writer: int = 0,
    ) -> ShipAnswer:
        joined = iter_frames(join_frames(frames))
        return self.engine.ship(run_id, attempt, joined, external_writer=external_writer)


def header(rank: int = 0, **more: Any) -> bytes:
    payload = {
        "format": 1,
        "run": "exp_1",
        "attempt": 1,
        "writer": WRITER,
        "segment": 0,
        "rank": rank,
        "role": "worker",
    }
    return journal.pack_long(journal.HEADER, {**payload, "wall_ns": 5_000, "t": 1_000, **more})


def name(name_id: int, text: str) -> bytes:
    return journal.pack_long(journal.NAME, {"id": name_id, "name": text})


def number(name_id: int, value: float | int | bool, *, time: int = 0, step: int | None = None) -> bytes:
    flags, at = (0, 0) if step is None else (journal.HAS_STEP, step)
    if isinstance(value, bool):
        return journal.pack_integer(journal.BOOL, flags, 0, name_id, at, time, int(value))
    if isinstance(value, int):
        return journal.pack_integer(journal.INT, flags, 0, name_id, at, time, value)
    return journal.pack_number(journal.FLOAT, flags, 0, name_id, at, time, value)


def journal_frame(data: bytes, offset: int = 0, **head: Any) -> tuple[dict[str, Any], bytes]:
    return {"kind": "journal", "writer": WRITER, "segment": 0, "offset": offset, **head}, data


def log_frame(data: bytes, offset: int = 0, name: str = "user_logs/std_log.txt") -> tuple[dict[str, Any], bytes]:
    return {"kind": "log", "name": name, "offset": offset}, data


def values_of(bench: Bench, metric: str, run_id: str = "exp_1") -> list[Any]:
    values = bench.store.read_series(run_id, metric).values
    return values if isinstance(values, list) else values.tolist()
