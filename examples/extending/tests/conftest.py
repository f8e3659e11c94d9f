"""A home, and a stand-in for the server that supervisors report to."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from my_runyard.processes import is_locked

from runyard.compute import load_backend
from runyard.compute.base import ComputeBackend
from runyard.core.config.settings import Settings
from runyard.core.specs import DistributionSpec, EnvironmentSpec, JobSpec, RunSpec
from runyard.testing.fake_server import FakeServer


class Bench:
    """What `runyard.testing.compute_backend.ComputeBench` asks for."""

    def __init__(self, home: Path, backend: ComputeBackend) -> None:
        self.home = home
        self.backend = backend
        self.server = FakeServer(str(home / "server.sock")).start()

    def job(self, script: str, *, distribution: DistributionSpec | None = None) -> JobSpec:
        run_id = f"exp_{len(self.server.runs) + 1}_0000abcd"
        self.server.add_run(run_id)
        environment = EnvironmentSpec(interpreter=sys.executable)
        return JobSpec(
            run_id=run_id,
            attempt=1,
            experiment="exp",
            workspace="default",
            spec=RunSpec(script="train.py", environment=environment, distribution=distribution or DistributionSpec()),
            snapshot_root=self.server.add_snapshot({"train.py": script.encode()}),
            server={"kind": "unix", "path": self.server.path},
            token="a-run-token",
            cookie=os.urandom(16).hex(),
            home=str(self.home),
        )

    def status(self, run_id: str) -> str:
        return self.server.runs[run_id].status

    def desire(self, run_id: str, desired: str) -> None:
        self.server.runs[run_id].desired = desired

    def wait_for_end(self, run_id: str) -> None:
        wait_until(lambda: self.server.runs[run_id].is_over)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="home-", ignore_cleanup_errors=True) as folder:  # short: it holds a socket
        bench = Bench(Path(folder), load_backend("processes", Settings(home=Path(folder)), {}))
        yield bench
        bench.backend.close()
        wait_until(lambda: not any(is_locked(claim) for claim in Path(folder).glob("runs/*/*/claim")))
        bench.server.stop()


def wait_until(is_so: Callable[[], bool], *, timeout_s: float = 90.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.01)
