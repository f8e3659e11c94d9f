"""The test machines themselves: what other tests rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.ground import Ground
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]

CRASH = """
import os, signal, sys, time
from pathlib import Path
from tests.cluster.ground import open_ground

def sleepers():
    return [pid for pid in ground.processes("node1") if Path(f"/proc/{pid}/comm").read_text() == "sleep\\n"]

with open_ground(Path(sys.argv[1]), 1) as ground:
    ground.start("node1", ["sh", "-c", "setsid sleep 601 & exec sleep 600"])
    while len(found := sleepers()) < 2:
        time.sleep(0.01)
    print(*found, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_each_node_has_its_name_and_address_and_reaches_the_others_by_name(ground: Ground) -> None:
    assert [ground.run(node, ["hostname"]).stdout for node in ground.nodes] == [f"{node}\n" for node in ground.nodes]
    for node, other in (("node1", "node4"), ("node3", "node2")):
        found = ground.run(node, ["getent", "hosts", other]).stdout.split()
        assert found == [ground.address(other), other]
        assert reaches(ground, node, other)
    assert Path("/sys/fs/cgroup").iterdir() and ground.run("node2", ["ls", "/sys/fs/cgroup"]).stdout


def test_a_cut_node_is_not_reached_until_it_is_mended(ground: Ground) -> None:
    ground.cut("node3")
    assert not reaches(ground, "node1", "node3")
    ground.mend("node3")
    wait_for(lambda: reaches(ground, "node1", "node3"))


def test_a_mount_is_the_nodes_own(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "mark").touch()
    (tmp_path / "at").mkdir()
    ground.bind("node2", tmp_path / "inside", tmp_path / "at")

    assert ground.run("node2", ["ls", str(tmp_path / "at")]).stdout == "mark\n"
    assert ground.run("node3", ["ls", str(tmp_path / "at")]).stdout == "" and not list((tmp_path / "at").iterdir())
    ground.run("node2", ["umount", str(tmp_path / "at")])


def test_killing_a_node_ends_every_process_of_it_and_of_no_other(ground: Ground) -> None:
    other = ground.start("node1", ["sleep", "600"])
    process = ground.start("node2", ["sh", "-c", "setsid sleep 600 & echo started; wait"])
    wait_for(lambda: ground.log_of(process) == "started\n")
    ground.kill_node("node2")

    assert process.wait(10) == -signal.SIGKILL and not ground.processes("node2")
    assert other.poll() is None
    other.kill()
    other.wait(10)


def test_nothing_outlives_tests_that_were_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", CRASH, str(tmp_path / "ground")]
    crashed = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    pids = crashed.stdout.split()

    assert crashed.returncode == -signal.SIGKILL and len(pids) == 2
    wait_for(lambda: not [pid for pid in pids if os.path.exists(f"/proc/{pid}")])


def reaches(ground: Ground, node: str, other: str) -> bool:
    code = f"import socket; s = socket.socket(); s.settimeout(2); print(s.connect_ex(('{ground.address(other)}', 1)))"
    return ground.run(node, [sys.executable, "-c", code]).stdout == "111\n"  # refused: somebody is there
