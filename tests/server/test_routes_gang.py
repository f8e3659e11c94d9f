"""Nodes of one job over HTTP: who may speak, and how fast the others hear of it. With real supervisors at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.client.calls.gang import GangCalls, GangNews
from runyard.client.calls.nodes import NodeCalls, read_joined
from runyard.client.client import Client
from runyard.core.errors import Conflict, NotAllowed, TooLarge
from runyard.core.formats.plain import to_plain
from runyard.core.machine.facts import supervisor_command
from runyard.core.specs import DistributionSpec, EnvironmentSpec, NodeSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.runtime.bundle import Bundle
from tests.server.conftest import Served, serve
from tests.waiting import wait_for

TWO = DistributionSpec("pytorch", node_count=2)
WHO: dict[str, Any] = {"attempt": 1, "incarnation": "a" * 32}


@pytest.fixture
def folder(session_folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="g", dir=session_folder) as folder:
        yield Path(folder)


@pytest.fixture
def cluster(folder: Path) -> Iterator[Served]:
    with serve(folder, cluster="cluster") as served:
        served.services.engine.context.addresses.bundles._made = Bundle(
            "b" * 64, b""
        )  # packing our code takes longer than a test
        served.submit(spec=RunSpec(target="cluster", script="train.py", distribution=TWO))
        wait_for(lambda: served.backend.jobs_of("exp_1"))
        yield served


class Listener(threading.Thread):
    """A node that waits for news."""

    def __init__(self, client: Client, since: str) -> None:
        super().__init__()
        self.calls, self.since = GangCalls(client.transport), since
        self.news: GangNews | None = None
        self.start()

    def run(self) -> None:
        self.news = self.calls.speak("exp_1", 0, since=self.since, wait_s=20, **WHO)

    def heard(self) -> GangNews:
        self.join(15)
        assert self.news is not None, "the answer should have come at once"
        return self.news


def test_news_and_wishes_wake_a_node_that_waits(cluster: Served) -> None:
    client = cluster.as_run("exp_1")
    calls = GangCalls(client.transport)
    before = calls.speak("exp_1", 0, facts={"host": "h0"}, **WHO)
    assert calls.speak("exp_1", 0, since=before.version, wait_s=0.05, **WHO) == before

    listener = Listener(client, before.version)
    calls.speak("exp_1", 1, facts={"host": "h1", "ready": {"ports": [7]}}, **WHO)
    news = listener.heard()
    assert [(peer.rank, peer.host) for peer in news.nodes] == [(0, "h0"), (1, "h1")]
    assert news.nodes[1].facts["ready"] == {"ports": [7]}

    listener = Listener(client, news.version)
    cluster.client.runs.cancel("exp_1")
    news = listener.heard()
    assert news.wish.desired == "cancel"

    listener = Listener(client, news.version)
    client.runs.state("exp_1", 1, RunStatus.CANCELED)
    assert listener.heard().wish.status is RunStatus.CANCELED


def test_only_the_run_s_own_token_speaks_and_only_for_its_attempt(cluster: Served) -> None:
    own = GangCalls(cluster.as_run("exp_1").transport)
    NodeCalls(cluster.as_run("exp_1").transport).join("exp_1", 1, host="h", address="a", **WHO)
    cluster.submit("exp_2")

    with pytest.raises(NotAllowed):
        GangCalls(cluster.as_run("exp_2").transport).speak("exp_1", 0, **WHO)
    with pytest.raises(NotAllowed, match="of attempt 1; it cannot speak for 2"):
        own.speak("exp_1", 0, attempt=2, incarnation="")
    with pytest.raises(Conflict, match="another process"):
        own.speak("exp_1", 1, attempt=1, incarnation="b" * 32)
    with pytest.raises(TooLarge):
        own.speak("exp_1", 0, facts={"much": "x" * (300 << 10)}, **WHO)
    assert own.speak("exp_1", 1, **WHO).nodes[0].host == "h"


SCRIPT = """
import os, time
open("here", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
print("done", os.environ["RANK"])
"""


@pytest.mark.long
def test_a_gang_goes_on_when_its_server_is_killed_and_comes_back(folder: Path) -> None:
    interpreter = EnvironmentSpec(interpreter=sys.executable)
    command = f"{sys.executable} -c '{SCRIPT}'"
    spec = RunSpec(target="cluster", command=command, distribution=TWO, environment=interpreter)
    with serve(folder, cluster="cluster") as served:
        served.services.engine.context.addresses.bundles._made = Bundle("b" * 64, b"")
        served.submit(spec=spec)
        wait_for(lambda: served.backend.jobs_of("exp_1"))
        jobs = [join(served, folder, rank) for rank in (0, 1)]
        supervisors = [start(folder, job) for job in jobs]
        wait_for(lambda: all((job / "work" / "here").exists() for job in jobs))
    try:
        (jobs[1] / "work" / "go").touch()
        with serve(folder, cluster="cluster") as served:
            wait_for(lambda: {"workers_done"} <= {name for one in nodes_of(served) for name in one["facts"]})
            assert {one["rank"] for one in nodes_of(served)} == {0, 1}
            (jobs[0] / "work" / "go").touch()
            run = wait_for(lambda: (run := served.client.runs.get("exp_1")).status.is_terminal and run)
            for supervisor in supervisors:
                supervisor.wait(30)
            names = {file.name for file in served.client.runs.files("exp_1")}
    finally:
        for supervisor in supervisors:
            supervisor.kill()

    assert run.status is RunStatus.COMPLETED, run.error
    assert {f"user_logs/std_log_process_0{rank}.txt" for rank in (0, 1)} <= names
    assert not any(job.exists() for job in jobs)


def nodes_of(served: Served) -> list[dict[str, Any]]:
    return served.services.engine.context.gangs.show("exp_1", 0.0)


def join(served: Served, folder: Path, rank: int) -> Path:
    """Take a node's part, as `supervisor/node/node.py` does, and return its run folder."""
    client = served.as_run("exp_1")
    here = {"host": f"host-{rank}", "address": f"127.0.1.{rank + 1}"}
    job = read_joined(NodeCalls(client.transport).join("exp_1", rank, **here, **WHO)).job
    home = folder / "node"
    path = home / "runs" / "exp_1" / f"1-{rank}"
    path.mkdir(parents=True, mode=0o700)
    token = client.address.token
    node = NodeSpec(rank, f"127.0.1.{rank + 1}", f"host-{rank}")
    server = to_plain(replace(served.address, token=token))
    mine = replace(
        job,
        server=server,
        token=token,
        home=str(home),
        nodes=[node],
        cookie=os.urandom(16).hex(),
        submitter={"PATH": os.environ["PATH"]},
    )
    (path / "job.json").write_text(json.dumps(to_plain(mine)))
    return path


def start(folder: Path, job: Path) -> subprocess.Popen[bytes]:
    variables = {"PATH": os.environ["PATH"], "RUNYARD_HOME": str(folder / "node")}
    return subprocess.Popen([*supervisor_command(), "--run", str(job)], env=variables, stdin=subprocess.DEVNULL)
