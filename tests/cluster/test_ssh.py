"""Plain machines over SSH: sshd on three of the test machines, a team server on the fourth, runs through the SDK."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from azureml.core import Run
from azureml.core.compute import ComputeTarget, RemoteCompute
from azureml.core.compute_target import ComputeTargetException
from azureml.core.runconfig import PyTorchConfiguration
from tests.cluster import scenarios, services
from tests.cluster.ground import Ground
from tests.cluster.scenarios import RunsOnAClusterSuite, Yard
from tests.cluster.sshd import PLAIN_UID, Boxes, make_key
from tests.cluster.team import Team
from tests.conftest import environ_of
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]

HOSTS = ("node2", "node3", "node4")
TARGET = "boxes"


SILENT = """
import socket
listener = socket.create_server(("0.0.0.0", 2200))
print("listens", flush=True)
kept = []
while True:
    kept.append(listener.accept())
"""


def attach(team: Team, boxes: Boxes, name: str = TARGET, *, slots: int = 2, **options: str) -> ComputeTarget:
    usual = {
        "address": boxes.addresses(),
        "username": "root",
        "private_key_file": str(boxes.key),
        "python": sys.executable,
    }
    config = RemoteCompute.attach_configuration(slots=slots, **{**usual, **options})
    target = ComputeTarget.attach(team.workspace(), name, config)
    target.wait_for_completion()
    return target


@pytest.fixture
def yard(boxes: Boxes, team: Team, tmp_path: Path) -> Yard:
    if TARGET not in team.workspace().compute_targets:
        attach(team, boxes)
    (tmp_path / "project").mkdir()
    return Yard(team, TARGET, tmp_path / "project", "on-ssh")


class TestRunsOverSsh(RunsOnAClusterSuite): ...


def test_a_machine_that_goes_away_and_comes_back_without_its_supervisor_is_adopted(
    yard: Yard, boxes: Boxes, ground: Ground
) -> None:
    stop = yard.folder / "stop"
    run = yard.submit(scenarios.UNTIL, str(stop))
    wait_for(lambda: len(scenarios.steps_of(run)) >= 3, what="it logs")
    node = scenarios.host_of(yard, run)
    ground.cut(node)
    supervisors = supervisors_of(ground, node, run)
    assert len(supervisors) == 2
    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)
    stop.touch()
    wait_for(lambda: not scenarios.processes_of(run), what="the program ended while nobody looked")
    assert run.get_status() in ("Running", "NotResponding")
    ground.mend(node)

    assert scenarios.finish(run)["status"] == "Completed", scenarios.tell(run)
    steps = scenarios.steps_of(run)
    assert len(steps) >= 3 and steps == list(range(1, len(steps) + 1))
    assert scenarios.log_of(run).split() == ["before", "after"]


def test_a_run_goes_on_without_sshd(yard: Yard, boxes: Boxes) -> None:
    stop = yard.folder / "stop"
    run = yard.submit(scenarios.UNTIL, str(stop))
    wait_for(lambda: len(scenarios.steps_of(run)) >= 1, what="it logs")
    daemon = boxes.daemons[scenarios.host_of(yard, run)]
    daemon.kill()
    stop.touch()

    assert scenarios.finish(run)["status"] == "Completed", scenarios.tell(run)
    daemon.start()


@pytest.mark.parametrize("how", ["killed", "restarted"])
def test_a_run_whose_machine_lost_all_processes_is_named_and_started_again(
    yard: Yard, boxes: Boxes, ground: Ground, how: str
) -> None:
    def lose(node: str) -> None:
        ground.kill_node(node)
        if how == "restarted":
            (yard.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
            ground.bind(node, yard.folder / "boot_id", "/proc/sys/kernel/random/boot_id")
        boxes.daemons[node].start()

    scenarios.lost_and_retried(yard, lose)


def test_a_service_answers_from_another_machine_when_its_own_is_lost(yard: Yard, boxes: Boxes, ground: Ground) -> None:
    def lose(node: str) -> None:
        ground.kill_node(node)
        boxes.daemons[node].start()  # who is asked there can say that the run is gone

    services.answered_elsewhere(yard, lose, names_it=True)


def test_more_runs_than_slots_wait_their_turn(yard: Yard) -> None:
    scenarios.many_queued(yard, 20)


def test_a_machine_that_cannot_start_its_part_ends_the_run_of_all_and_is_named(yard: Yard, ground: Ground) -> None:
    home = ground.disk("node4") / f"runyard-{os.getuid()}"
    shutil.rmtree(home / "cache", ignore_errors=True)
    (home / "cache").write_text("in the way")
    job = PyTorchConfiguration("Gloo", process_count=3, node_count=3)
    details = scenarios.finish(yard.submit(scenarios.WAITS, distributed_job_config=job))

    assert details["status"] == "Failed" and details["error"]["error"]["code"] == "NodeLost", details
    assert "10.77.0.4: " in details["error"]["error"]["message"], details
    (home / "cache").unlink()


@pytest.fixture
def pair(yard: Yard, boxes: Boxes) -> Yard:
    """Two machines with a slot each."""
    if "pair" not in yard.team.workspace().compute_targets:
        attach(yard.team, boxes, "pair", slots=1, address=boxes.addresses("node2", "node3"))
    return replace(yard, target="pair")


def test_a_machine_that_is_down_keeps_no_run_from_the_others(pair: Yard, boxes: Boxes) -> None:
    boxes.daemons["node2"].kill()
    run = pair.submit(scenarios.HELLO)

    assert scenarios.finish(run)["status"] == "Completed", scenarios.tell(run)
    assert scenarios.log_of(run) == "hello from node3\n"
    boxes.daemons["node2"].start()


def test_a_restarted_server_knows_which_slots_are_taken(pair: Yard) -> None:
    stops = [pair.folder / "first", pair.folder / "second"]
    first, second = [pair.submit(scenarios.UNTIL, str(stop)) for stop in stops]
    for run in (first, second):
        wait_for(lambda run=run: scenarios.steps_of(run), what="both run")
    host = scenarios.host_of(pair, first)
    stops[0].touch()
    assert scenarios.finish(first)["status"] == "Completed"
    pair.team.kill()
    pair.team.start()
    third = pair.submit(scenarios.HELLO)

    assert scenarios.finish(third)["status"] == "Completed", scenarios.tell(third)
    assert scenarios.log_of(third) == f"hello from {host}\n"
    stops[1].touch()
    assert scenarios.finish(second)["status"] == "Completed", scenarios.tell(second)


def test_a_machine_with_another_host_key_gets_nothing(yard: Yard, boxes: Boxes) -> None:
    with boxes.daemons["node4"].another_host_key():
        with pytest.raises(ComputeTargetException) as caught:
            attach(yard.team, boxes, "changed", address=boxes.addresses("node4"))
        assert "10.77.0.4 shows another host key than the one that was recorded" in str(caught.value)
        assert "ssh-keygen -R 10.77.0.4" in str(caught.value)
    assert "changed" not in yard.team.workspace().compute_targets


@pytest.mark.parametrize(
    "address", ["10.77.0.99", "10.77.0.4:2200"], ids=["nobody is there", "it accepts and is silent"]
)
def test_a_machine_that_does_not_answer_is_refused_in_words(
    yard: Yard, boxes: Boxes, ground: Ground, address: str
) -> None:
    silent = ground.start("node4", [sys.executable, "-c", SILENT])
    wait_for(lambda: ground.log_of(silent), what="the silent one listens")
    with pytest.raises(ComputeTargetException, match=f"The machine {re.escape(address)} does not answer"):
        attach(yard.team, boxes, "silent", address=f"{boxes.addresses('node2')},{address}")
    silent.kill()


def test_a_key_that_the_machine_does_not_know_is_refused_in_words(yard: Yard, boxes: Boxes) -> None:
    other = make_key(yard.folder / "other")
    with pytest.raises(ComputeTargetException, match="does not let `root` in"):
        attach(yard.team, boxes, "other", private_key_file=str(other))


def test_a_plain_user_with_the_machines_own_python(yard: Yard, boxes: Boxes, ground: Ground) -> None:
    own = {"username": "plain", "python": "/usr/bin/python3", "address": boxes.addresses("node4")}
    attach(yard.team, boxes, "plain", **own)
    run = replace(yard, target="plain").submit(
        "import os, sys\nprint(os.getuid(), os.path.realpath(sys.executable))\n", interpreter="/usr/bin/python3"
    )

    assert scenarios.finish(run)["status"] == "Completed", scenarios.tell(run)
    assert scenarios.log_of(run).split()[0] == str(PLAIN_UID)
    left = ground.disk("node4") / f"runyard-{PLAIN_UID}"
    assert left.stat().st_uid == PLAIN_UID and left.stat().st_mode & 0o077 == 0
    wait_for(
        lambda: not list(left.glob("runs/*/*")) and not list(left.glob("starts/*/*")), what="nothing of it is left"
    )


def supervisors_of(ground: Ground, node: str, run: Run) -> list[int]:
    """Return the reaper and the supervisor of the run on a node."""
    claim = ground.disk(node) / f"runyard-{os.getuid()}" / "runs" / run.id / "1" / "claim"
    reaper = int(json.loads(claim.read_text())["pid"])
    children = Path(f"/proc/{reaper}/task/{reaper}/children").read_text().split()
    return [reaper, *(int(pid) for pid in children if environ_of(int(pid), "RUNYARD_RUN_ID") is None)]
