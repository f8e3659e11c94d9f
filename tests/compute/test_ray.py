"""The backend `ray` and its end of the pipe, against a stand-in for the bridge."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.base import JobHandle, JobState
from runyard.compute.ray.backend import RayBackend, bridge_variables, explain_failure
from runyard.compute.ray.link import BridgeFailure, RayLink
from runyard.core.config.settings import Settings
from runyard.core.errors import InvalidArgument, MissingExtra, UserError
from runyard.core.specs import DistributionSpec, JobSpec, ResourceSpec, RunSpec
from runyard.core.tickets import VARIABLE, read_ticket
from tests.waiting import wait_for

# Answers what the test wrote into `answers.json`, and appends each question to `asked`.
STAND_IN = """
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
print(os.getpid(), file=open(folder + "/pids", "a"))
for line in sys.stdin:
    question = json.loads(line)
    open(folder + "/asked", "a").write(line)
    answer = json.load(open(folder + "/answers.json")).get(question.get("do", "connect"), {})
    if "die" in answer and not (answer.get("once") and os.path.exists(folder + "/died")):
        open(folder + "/died", "w")
        sys.exit(answer["die"])
    if "hang" not in answer:
        print(json.dumps({"id": question["id"], **answer}), flush=True)
"""
VERSIONS = {"answer": {"ray": "2.60.0", "python": "3.11.7"}}
NODE = {"id": "a", "name": "n1", "address": "10.0.0.1", "is_alive": True, "total": {"CPU": 2.0}, "free": {"CPU": 2.0}}
VIEW: dict[str, Any] = {"actors": [], "groups": [], "nodes": [{**NODE, "death": 0, "message": ""}]}
HANDLE = JobHandle("exp_1_aa", 1)


class StandIn:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: dict[str, Any] = {"connect": VERSIONS, "look": {"answer": VIEW}, "start": {"answer": None}}
        (folder / "bridge.py").write_text(textwrap.dedent(STAND_IN))
        self.answer()
        self.link = RayLink(sys.executable, "host:6379", {"PATH": os.environ["PATH"]}, script=folder / "bridge.py")

    def answer(self, **answers: Any) -> None:
        self.answers.update(answers)
        (self.folder / "answers.json").write_text(json.dumps(self.answers))

    def asked(self, do: str) -> list[dict[str, Any]]:
        path = self.folder / "asked"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line["with"] for line in lines if line.get("do") == do]

    def pids(self) -> list[int]:
        return [int(line) for line in (self.folder / "pids").read_text().split()]


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[StandIn]:
    stand_in = StandIn(tmp_path)
    yield stand_in
    stand_in.link.close()


def backend(bridge: StandIn, home: Path, **options: Any) -> RayBackend:
    return RayBackend(Settings(home=home), {"address": "host:6379", **options}, link=bridge.link)


def a_job(**spec: Any) -> JobSpec:
    return JobSpec(
        run_id=HANDLE.run_id,
        attempt=HANDLE.attempt,
        experiment="exp",
        workspace="default",
        spec=RunSpec(target="pool", script="train.py", **spec),
        snapshot_root=None,
        server={"kind": "tcp", "host": "h", "port": 1},
        token="a-run-token",
        cookie="c",
        home="/h",
        bundle="b" * 64,
    )


def test_a_plan_asks_for_what_the_run_says(bridge: StandIn, home: Path) -> None:
    ray = backend(bridge, home, cpus=3)
    resources = ResourceSpec(cpus=1.5, memory_bytes=1 << 30, custom={"tpu": 2})
    gang = DistributionSpec(kind="mpi", node_count=2, processes_per_node=4)

    assert ray.plan(a_job()).resources == {"per_node": {"CPU": 3}, "nodes": 1, "namespace": "runyard"}
    assert ray.plan(a_job(resources=resources, gpus=1)).resources["per_node"] == {
        "CPU": 1.5,
        "GPU": 1,
        "memory": 1 << 30,
        "tpu": 2,
    }
    assert backend(bridge, home).plan(a_job(distribution=gang)).resources == {
        "per_node": {"CPU": 4},
        "nodes": 2,
        "namespace": "runyard",
        "strategy": "STRICT_SPREAD",
    }
    assert not (bridge.folder / "pids").exists(), "a plan touches nothing"


def test_each_node_gets_a_ticket_in_its_environment_and_none_in_its_argv(bridge: StandIn, home: Path) -> None:
    ray = backend(bridge, home, node_home="/scratch", node_python="/opt/python")
    request = ray.plan(a_job(distribution=DistributionSpec(node_count=2)))

    assert ray.submit(request) == HANDLE
    (asked,) = bridge.asked("start")
    tickets = [read_ticket(node["variables"][VARIABLE]) for node in asked["nodes"]]
    assert asked["job"] == "runyard-exp_1_aa-1" and asked["resources"] == {"CPU": 1}
    assert [(one.node_rank, one.token, one.node_home) for one in tickets] == [
        (0, "a-run-token", "/scratch"),
        (1, "a-run-token", "/scratch"),
    ]
    assert {node["argv"][0] for node in asked["nodes"]} == {"/opt/python"}
    assert not [word for node in asked["nodes"] for word in node["argv"] if "a-run-token" in word]
    assert "PATH" in asked["kept"] and not [name for name in asked["kept"] if name.startswith(("RAY_", "PYTHON"))]


def test_without_a_node_python_the_node_takes_rays_own(bridge: StandIn, home: Path) -> None:
    ray = backend(bridge, home)
    ray.submit(ray.plan(a_job()))

    assert bridge.asked("start")[0]["nodes"][0]["argv"][0] == ""


def test_a_cluster_that_cannot_be_asked_is_unknown_and_never_gone(bridge: StandIn, home: Path) -> None:
    ray = backend(bridge, home)
    bridge.answer(look={"error": "RpcError", "text": "GCS is away"})
    ray.poll([HANDLE])
    wait_for(lambda: bridge.asked("look"))
    assert ray.poll([HANDLE])[HANDLE].state is JobState.UNKNOWN

    bridge.answer(look={"answer": VIEW}, cancel={"answer": True})
    ray.cancel(HANDLE)  # after which the cluster is asked at once
    wait_for(lambda: ray.poll([HANDLE])[HANDLE].state is JobState.GONE)
    assert all(question == {"jobs": ["runyard-exp_1_aa-1"]} for question in bridge.asked("look"))
    ray.close()


def test_cancel_and_end_name_the_job(bridge: StandIn, home: Path) -> None:
    ray = backend(bridge, home)
    bridge.answer(cancel={"answer": True}, end={"answer": None})
    ray.cancel(HANDLE)
    ray.end(HANDLE)

    wait_for(lambda: bridge.asked("cancel"))
    assert bridge.asked("cancel") == [{"job": "runyard-exp_1_aa-1"}]
    assert [one["job"] for one in bridge.asked("end")] == ["runyard-exp_1_aa-1"]


def test_a_check_names_versions_and_size(bridge: StandIn, home: Path) -> None:
    assert backend(bridge, home).check() == "Ray 2.60.0 (Python 3.11.7): 1 nodes, 2 CPUs, 0 GPUs"


def test_a_node_that_does_not_reach_the_server_is_named(bridge: StandIn, home: Path) -> None:
    ray = backend(bridge, home)
    bridge.answer(reach={"answer": {"n1": "", "n2": "No route to host"}})
    server = {"kind": "tcp", "host": "yard", "port": 8787, "token": "secret"}
    with pytest.raises(UserError, match="n2 does not reach this server at yard:8787") as caught:
        ray.check_reach(server)
    bridge.answer(reach={"answer": {"n1": "", "n2": ""}})
    ray.check_reach(server)

    assert "No route to host" in caught.value.why
    assert bridge.asked("reach") == [{"host": "yard", "port": 8787}] * 2


def test_a_bridge_that_dies_is_started_again_and_asked_again(bridge: StandIn) -> None:
    bridge.answer(look={"die": "out of memory", "once": True, "answer": VIEW})

    assert bridge.link.ask("look", jobs=[]) == VIEW
    assert len(set(bridge.pids())) == 2


def test_a_bridge_that_dies_of_a_question_is_not_asked_for_ever(bridge: StandIn) -> None:
    bridge.answer(look={"die": "the last words"})
    with pytest.raises(BridgeFailure) as caught:
        bridge.link.ask("look", jobs=[])

    assert "the last words" in caught.value.why
    assert len(set(bridge.pids())) == 2


def test_a_bridge_that_hangs_is_given_up_and_ended(bridge: StandIn) -> None:
    bridge.answer(look={"hang": True})
    with pytest.raises(BridgeFailure, match=r"within 0\.3 s"):
        bridge.link.ask("look", timeout_s=0.3, jobs=[])

    (pid,) = bridge.pids()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_missing_cluster_is_not_looked_for_at_every_question(bridge: StandIn) -> None:
    bridge.answer(connect={"error": "ConnectionError", "text": "nobody there"})
    for _ in range(3):
        with pytest.raises(BridgeFailure, match="nobody there"):
            bridge.link.ask("look", jobs=[])
    assert len(bridge.pids()) == 1

    with pytest.raises(BridgeFailure, match="nobody there"):
        bridge.link.versions()
    assert len(bridge.pids()) == 2, "who attaches a cluster wants to know now"


def test_a_bridge_ends_with_the_link(bridge: StandIn) -> None:
    bridge.link.ask("look", jobs=[])
    (pid,) = bridge.pids()
    bridge.link.close()
    bridge.link.close()

    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    with pytest.raises(BridgeFailure, match="server stops"):
        bridge.link.ask("look", jobs=[])


def test_the_bridge_knows_rays_variables_and_the_targets_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:1")
    monkeypatch.setenv("RUNYARD_SECRET", "x")
    monkeypatch.setenv("PYTHONPATH", "/x")
    found = bridge_variables({"env": {"RAY_ADDRESS": "here:1", "RAY_USE_TLS": "1"}})

    assert found["RAY_AUTH_MODE"] == "token" and found["RAY_ADDRESS"] == "here:1" and found["RAY_USE_TLS"] == "1"
    assert not {"RUNYARD_SECRET", "PYTHONPATH"} & set(found)


@pytest.mark.parametrize(
    ("kind", "text", "expected", "hint"),
    [
        ("", "died. ModuleNotFoundError: No module named 'ray'", MissingExtra, "runyard[ray]"),
        ("RuntimeError", "Version mismatch: The cluster was started with Ray: 2.50", InvalidArgument, "python="),
        ("AuthenticationError", "refused", InvalidArgument, "RAY_AUTH_TOKEN"),
        ("ConnectionError", "Failed to connect to Ray cluster at h:1", InvalidArgument, "RAY_USE_TLS"),
        ("TimeoutError", "No cluster answered at h:1 within 40 s.", InvalidArgument, "RAY_USE_TLS"),
        ("OSError", "/nope could not be started", InvalidArgument, "path of a Python"),
        ("ConnectionError", "Nobody answers at h:1", UserError, "ray://HOST:10001"),
    ],
)
def test_a_cluster_that_cannot_be_attached_says_what_to_do(
    kind: str, text: str, expected: type[UserError], hint: str
) -> None:
    error = explain_failure(BridgeFailure(kind, text), "h:1", "/usr/bin/python3")

    assert type(error) is expected and hint in error.hint and "`h:1`" in error.what


def test_an_interpreter_without_ray_is_named(home: Path) -> None:
    ray = RayBackend(Settings(home=home), {"address": "127.0.0.1:1"})
    with pytest.raises(MissingExtra, match=r"has no Ray") as caught:
        ray.check()
    ray.close()

    assert sys.executable in caught.value.why


def test_a_submitted_job_is_the_one_that_was_planned(bridge: StandIn, home: Path) -> None:
    job = a_job()
    request = backend(bridge, home, shared_folder="/shared").plan(job)

    assert request.job == replace(job, nodes=request.job.nodes, shared_folder="/shared")
    assert "a-run-token" not in repr(request.argv)
