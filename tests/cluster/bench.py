"""A backend of a cluster beside a server that its nodes reach by a socket file: for the conformance suite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from runyard.compute.base import ComputeBackend
from runyard.core.formats.plain import to_plain
from runyard.core.specs import DistributionSpec, EnvironmentSpec, JobSpec, RunSpec
from runyard.runtime.bundle import Bundles
from runyard.testing.fake_server import FakeServer


class ClusterBench:
    def __init__(self, folder: Path, backend: ComputeBackend) -> None:
        self.backend = backend
        self.server = FakeServer(str(folder / "s.sock")).start()
        self._bundle = Bundles(folder / "server-home").get()
        self.server.bundle = self._bundle.data

    def job(self, script: str, *, distribution: DistributionSpec | None = None) -> JobSpec:
        run_id = f"exp_{len(self.server.runs) + 1}_{os.urandom(4).hex()}"
        wanted = distribution or DistributionSpec()
        job = JobSpec(
            run_id=run_id,
            attempt=1,
            experiment="exp",
            workspace="default",
            spec=RunSpec(
                script="train.py", environment=EnvironmentSpec(interpreter=sys.executable), distribution=wanted
            ),
            snapshot_root=self.server.add_snapshot({"train.py": script.encode()}),
            server={"kind": "unix", "path": self.server.path},
            token="a-run-token",
            cookie=os.urandom(16).hex(),
            home="/of/the/server",
            node_count=wanted.node_count,
            bundle=self._bundle.key,
        )
        self.server.add_run(run_id).job = {**to_plain(job), "token": ""}
        return job

    def status(self, run_id: str) -> str:
        return self.server.runs[run_id].status

    def desire(self, run_id: str, desired: str) -> None:
        self.server.runs[run_id].desired = desired

    def close(self) -> None:
        self.backend.close()
        self.server.stop()
