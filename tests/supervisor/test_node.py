"""A node of a cluster has a Python and a ticket, and nothing of ours: the server gives it the rest."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import runyard
from runyard.compute.node_start import node_command, node_ticket
from runyard.core.errors import SystemFailure
from runyard.core.formats.chunks import chunk_id
from runyard.core.formats.frames import join_frames
from runyard.core.formats.plain import to_plain
from runyard.core.specs import DistributionSpec, EnvironmentSpec, JobSpec, RunSpec
from runyard.core.tickets import read_ticket
from runyard.runtime.bundle import Bundles
from runyard.testing.fake_server import FakeServer
from tests.interpreters import pythons

RUN = "exp_1_0000abcd"
SCRIPT = """
import json, os
from azureml.core import Run
run = Run.get_context()
run.log("seen", 7.5)
names = ("RUNYARD_HOME", "RUNYARD_RUN_FOLDER", "RUNYARD_COOKIE", "RUNYARD_TICKET", "SECRET_OF_THE_DAEMON")
open("outputs/seen.json", "w").write(json.dumps({name: os.environ.get(name) for name in names}))
print("node", os.environ["AZUREML_RUN_ID"])
"""


class Cluster:
    """A server that nodes reach, and one run for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = FakeServer(str(folder / "s.sock")).start()
        bundle = Bundles(folder / "server-home").get()
        self.server.bundle = bundle.data
        self.run = self.server.add_run(RUN)
        self.job = JobSpec(
            run_id=RUN,
            attempt=1,
            experiment="exp",
            workspace="default",
            spec=RunSpec(script="train.py", environment=EnvironmentSpec(), distribution=DistributionSpec()),
            snapshot_root=self.server.add_snapshot({"train.py": SCRIPT.encode()}),
            server={"kind": "unix", "path": self.server.path},
            token="a-run-token",
            cookie=os.urandom(16).hex(),  # runs with the same one would end each other
            home="/of/the/server",
            bundle=bundle.key,
        )
        self.run.job = {**to_plain(self.job), "token": ""}

    def snapshot(self, *, script: bytes = SCRIPT.encode()) -> str:
        """Return what a server sends along; `script` other than the real one is damage."""
        root = str(self.job.snapshot_root)
        frames = [({"tree": root}, self.server.trees[root]), ({"chunk": chunk_id(SCRIPT.encode())}, script)]
        return base64.b64encode(join_frames(frames)).decode()

    def start_node(self, python: str = sys.executable, **changes: str) -> subprocess.Popen[str]:
        job = replace(self.job, **changes) if changes else self.job
        variables = {
            "PATH": os.environ["PATH"],
            "RUNYARD_TICKET": node_ticket(job, node_rank=0, node_home=str(self.folder / "node")),
            "RUNYARD_KEEP_RUN_FOLDERS": "1",
            "SECRET_OF_THE_DAEMON": "canary",
        }
        return subprocess.Popen(node_command(python), env=variables, cwd="/", text=True, stderr=subprocess.PIPE)

    def run_node(self, python: str = sys.executable, **changes: str) -> str:
        """Return what a node that has left had said."""
        node = self.start_node(python, **changes)
        return node.communicate(timeout=60)[1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.server.stop()


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_a_node_with_a_python_and_a_ticket_runs_its_part(cluster: Cluster, python: str) -> None:
    assert cluster.run_node(python) == ""
    seen = json.loads(cluster.server.file(RUN, "outputs/seen.json"))
    home = str(cluster.folder / "node")

    assert cluster.run.status == "Completed", cluster.run.error
    assert bytes(cluster.run.logs["user_logs/std_log.txt"]) == f"node {RUN}\n".encode()
    assert cluster.server.numbers(RUN) == [7.5]
    assert seen == {
        "RUNYARD_HOME": home,
        "RUNYARD_RUN_FOLDER": f"{home}/runs/{RUN}/1",
        "RUNYARD_COOKIE": hashlib.sha256(f"{cluster.job.cookie}\x000".encode()).hexdigest()[:32],
        "RUNYARD_TICKET": None,
        "SECRET_OF_THE_DAEMON": None,
    }


LATER = """
import sys
from runyard.supervisor.node.bootstrap import Later
sys.modules["inspect"] = Later("inspect")
import dataclasses
from runyard.core.tickets import NodeTicket
dataclasses.fields(NodeTicket)
assert type(sys.modules["inspect"]) is Later or sys.version_info >= (3, 13), "making a dataclass uses it"
import runyard.supervisor.node.node, runyard.supervisor.supervisor
import inspect
def asked(one, *, two): pass
print(inspect.signature(asked), type(sys.modules["inspect"]) is Later)
import inspect
print(type(inspect).__name__, dataclasses.make_dataclass("Made", ["x"])(1))
"""


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_a_nodes_start_loads_inspect_only_for_who_uses_it(python: str) -> None:
    script = f"import sys; sys.path.insert(0, {str(Path(runyard.__file__).parent.parent)!r})\n{LATER}"
    ended = subprocess.run([python, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)

    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["(one, *, two) False", "module Made(x=1)"]


def test_a_node_asks_until_the_server_answers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    joins: list[bytes] = []
    join = cluster.server._do_join

    def answer_the_third(about: str, body: bytes) -> dict[str, Any]:
        joins.append(body)
        if len(joins) < 3:
            raise SystemFailure("The server is busy.")
        return join(about, body)

    monkeypatch.setattr(cluster.server, "_do_join", answer_the_third)
    assert cluster.run_node() == ""

    assert cluster.run.status == "Completed", cluster.run.error
    assert len(joins) == 3 and len(set(joins)) == 1  # the same incarnation each time


def test_a_small_snapshot_comes_along_with_the_job(cluster: Cluster) -> None:
    cluster.run.job = {**cluster.run.job, "snapshot": cluster.snapshot()}
    assert cluster.run_node() == ""

    assert cluster.run.status == "Completed", cluster.run.error
    assert cluster.server.numbers(RUN) == [7.5]
    assert not {"tree", "fetch"} & set(cluster.server.requests)


def test_what_came_along_damaged_is_fetched(cluster: Cluster) -> None:
    cluster.run.job = {**cluster.run.job, "snapshot": cluster.snapshot(script=b"print('another program')")}
    assert cluster.run_node() == ""

    assert cluster.run.status == "Completed", cluster.run.error
    assert cluster.server.numbers(RUN) == [7.5]
    assert "fetch" in cluster.server.requests


def test_a_second_process_for_the_same_node_gets_nothing_and_the_code_is_fetched_once(cluster: Cluster) -> None:
    cluster.run_node()
    said = cluster.run_node()

    assert "in the hands of another process" in said
    assert cluster.server.requests.count("join") == 2
    assert cluster.server.requests.count("bundle") == 1
    assert cluster.server.numbers(RUN) == [7.5]


def test_code_that_something_cleaned_away_is_fetched_again(cluster: Cluster) -> None:
    cluster.run_node()
    [code] = (path for path in (cluster.folder / "node/cache/injection").iterdir() if path.is_dir())
    (code / "runyard/core/specs.py").unlink()
    said = cluster.run_node()

    assert "in the hands of another process" in said
    assert cluster.server.requests.count("bundle") == 2
    assert (code / "runyard/core/specs.py").exists()


def test_other_code_than_the_ticket_names_is_never_run(cluster: Cluster) -> None:
    cluster.server.bundle += b"\0"
    said = cluster.run_node()

    assert "other code than the ticket names" in said
    assert list((cluster.folder / "node/cache/injection").glob("*/")) == []


def test_a_node_home_that_others_can_write_to_is_refused(cluster: Cluster) -> None:
    (cluster.folder / "node").mkdir()
    (cluster.folder / "node").chmod(0o777)
    said = cluster.run_node()

    assert "is not a private folder of this user" in said
    assert cluster.server.requests == []


def test_a_ticket_is_one_word_and_reads_back(cluster: Cluster) -> None:
    word = node_ticket(cluster.job, node_rank=3, node_home="/scratch/me")
    ticket = read_ticket(word)

    assert word.isascii() and not set(word) & set(" \n'\"$\\")
    assert (ticket.run_id, ticket.attempt, ticket.node_rank, ticket.token) == (RUN, 1, 3, "a-run-token")
    assert "a-run-token" not in repr(ticket)
