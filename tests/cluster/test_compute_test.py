"""`runyard compute test` over machines that can reach one another, and over some that cannot."""

from __future__ import annotations

import json
import sys

import pytest

from tests.cluster.ground import Ground
from tests.cluster.sshd import Boxes
from tests.cluster.team import Team

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]

HOSTS = ("node2", "node3", "node4")


def test_every_machine_is_looked_at_and_a_closed_way_between_two_is_named(
    team: Team, ground: Ground, boxes: Boxes
) -> None:
    key = ["--key", str(boxes.key), "--python", sys.executable]
    words = ["--address", boxes.addresses(), "--user", "root", *key]
    team.cli("compute", "attach", "tested", "ssh", *words)
    found = json.loads(team.cli("compute", "test", "tested", "--json"))

    assert (sorted(node["host"] for node in found["nodes"]), found["faults"]) == (list(HOSTS), [])
    assert all(node["address"] == ground.address(node["host"]) for node in found["nodes"])
    assert "All is well." in team.cli("compute", "test", "tested", "--nodes", "2")
    # A route to nowhere is what a firewall that drops looks like.
    closed = ["ip", "route", "add", "blackhole", f"{ground.address('node4')}/32"]
    ground.run("node3", closed)
    try:
        refused = ground.run(
            "node1",
            [sys.executable, "-m", "runyard.cli", "compute", "test", "tested"],
            env={"RUNYARD_HOME": str(team.home)},
            timeout_s=200,
            check=False,
        )
    finally:
        ground.run("node3", ["ip", "route", "del", "blackhole", f"{ground.address('node4')}/32"])
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert f"({ground.address('node4')}) is not reached" in refused.stdout and "firewalls" in refused.stdout
    team.cli("compute", "delete", "tested", "--yes")
