"""Every backend passes the same suite."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.compute import load_backend
from runyard.compute.base import ComputeBackend
from runyard.core.config.settings import Settings
from runyard.core.errors import NotFound
from runyard.core.specs import DistributionSpec, EnvironmentSpec, JobSpec, RunSpec
from runyard.supervisor.proc import list_processes
from runyard.testing.compute_backend import ComputeBackendSuite
from runyard.testing.fake_server import FakeServer
from tests.supervisor.supervised import command_line, share_cache
from tests.waiting import wait_for


class Bench:
    def __init__(self, home: Path, backend: ComputeBackend) -> None:
        self.home = home
        self.backend = backend
        self.server = FakeServer(str(home / "s.sock")).start()

    def job(self, script: str, *, distribution: DistributionSpec | None = None) -> JobSpec:
        run_id = f"exp_{len(self.server.runs) + 1}_0000abcd"
        self.server.add_run(run_id)
        return JobSpec(
            run_id=run_id,
            attempt=1,
            experiment="exp",
            workspace="default",
            spec=RunSpec(
                script="train.py",
                environment=EnvironmentSpec(interpreter=sys.executable),
                distribution=distribution or DistributionSpec(),
            ),
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


@pytest.fixture(params=["local"])
def bench(request: pytest.FixtureRequest, home: Path) -> Iterator[Bench]:
    share_cache(home)
    bench = Bench(home, load_backend(request.param, Settings(home=home)))
    yield bench
    bench.backend.close()
    wait_for(lambda: not supervisors_of(home))  # one that found its job claimed may still be leaving
    bench.server.stop()


def supervisors_of(home: Path) -> list[int]:
    return [entry.pid for entry in list_processes() if f"{home}/runs/".encode() in command_line(entry.pid)]


class TestComputeBackends(ComputeBackendSuite): ...


def test_an_unknown_backend_names_the_known_ones(home: Path) -> None:
    with pytest.raises(NotFound, match="no compute implementation called `mars`") as caught:
        load_backend("mars", Settings(home=home))

    assert "local" in caught.value.hint
