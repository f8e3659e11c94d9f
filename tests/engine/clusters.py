"""A fake cluster of somebody else's machines, and a server that other machines reach."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runyard.compute.base import ClusterNode, SupportsCheck
from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError
from runyard.engine.engine import Engine
from runyard.testing.compute_backend import FakeBackend
from tests.engine.bench import Bench


class FakeCluster(FakeBackend, SupportsCheck):
    """What a backend was made with, and nodes that a test names."""

    def __init__(self, settings: Settings | None = None, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.options = dict(options or {})
        self.nodes = [
            ClusterNode("n1", "10.0.0.1", "idle", cpus=4),
            ClusterNode("n2", "10.0.0.2", "down", note="no ping"),
        ]
        self.checks = 0
        self.check_fault: RunyardError | None = None

    def check(self) -> str:
        self.checks += 1
        if self.check_fault is not None:
            raise self.check_fault
        return "an engine"

    def list_nodes(self) -> list[ClusterNode]:
        return self.nodes


class TeamBench(Bench):
    """Backends of other kinds than `local` are made when a target needs one: `made` has them."""

    def __init__(self, home: Path, **more: Any) -> None:
        self.made: list[tuple[str, FakeCluster]] = []
        self.fault: Exception | None = None
        self.check_fault: RunyardError | None = None
        super().__init__(home, **more)

    def _engine(self) -> Engine:
        self.is_team = True
        return super()._engine()

    def make_backend(self, kind: str, settings: Settings, options: Mapping[str, Any]) -> FakeCluster:
        if self.fault is not None:
            raise self.fault
        made = FakeCluster(settings, options)
        made.check_fault = self.check_fault
        self.made.append((kind, made))
        return made
