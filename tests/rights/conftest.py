"""A team server in this process: users in every role, two workspaces, and runs of theirs on a cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.core.errors import NotAllowed
from runyard.core.names import make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from tests.server.conftest import Served, serve

CLUSTER = "cluster"
HERS, THEIRS = "default", "elsewhere"  # workspaces


@dataclass(frozen=True)
class Team:
    served: Served

    @property
    def owner(self) -> Client:
        return self.served.client

    def submit(self, by: Client, run_id: str = "", **changes: Any) -> str:
        """Submit a run to the cluster and return its id."""
        spec = changes.pop("spec", RunSpec(script="train.py", target=CLUSTER))
        made = self.served.submit(run_id or f"r-{make_uuid()}", by=by, spec=spec, **changes)
        self.served.job_of(made)  # a server that stops in between leaves a thread behind
        return made

    def start_logging(self, by: Client, **changes: Any) -> tuple[str, Client]:
        """Make a run that a process elsewhere is; return its id and a client with its token."""
        named = {"key": make_uuid(), "id": f"i-{make_uuid()}", "workspace": HERS, "experiment": "exp", "type": None}
        made = by.runs.create(NewRun(**{**named, **changes}), launch=False)
        assert made.token
        return made.run.id, self.served.with_token(made.token)

    def end(self, run_id: str, status: str = "Completed") -> None:
        attempt = self.owner.runs.get(run_id).attempt
        self.owner.transport.request(
            "POST", f"/runs/{run_id}/state", json={"attempt": attempt, "status": status, "error": None}
        )
        assert self.owner.runs.get(run_id).status.is_terminal


@pytest.fixture
def team(session_folder: Path) -> Iterator[Team]:
    with tempfile.TemporaryDirectory(prefix="r", dir=session_folder) as folder:
        with serve(Path(folder), cluster=CLUSTER) as served:
            served.client.workspaces.put(THEIRS)
            yield Team(served)


def again(by: Client, run_id: str) -> str | None:
    """Submit a run again and return whose the new one is."""
    made = by.transport.request("POST", f"/runs/{run_id}/resubmit", json={}).json()["run"]
    return str(made["owner"])


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except NotAllowed:
        return True
    return False
