"""Compute targets over HTTP."""

from __future__ import annotations

import pytest

from runyard.core.compute import ComputeSpec
from runyard.core.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from runyard.core.specs import RunSpec
from tests.server.conftest import Served

SPEC = ComputeSpec(max_nodes=2, vm_size="STANDARD_NC6", tags={"team": "a"}, azure={"vnet_name": "net"})


def test_a_target_is_made_changed_and_deleted(served: Served) -> None:
    compute = served.client.compute
    made = compute.create("default", "gpu-cluster", SPEC)

    assert made == compute.create("default", "gpu-cluster", SPEC) == compute.get("default", "gpu-cluster")
    assert (made.name, made.spec, made.nodes, made.waiting) == ("gpu-cluster", SPEC, [], [])
    assert compute.list("default") == [made]
    changed = compute.update("default", "gpu-cluster", max_nodes=8, min_nodes=1, description=None)
    assert (changed.spec.max_nodes, changed.spec.min_nodes, changed.spec.vm_size) == (8, 1, "STANDARD_NC6")
    for _ in range(2):
        compute.delete("default", "gpu-cluster")
    assert compute.list("default") == []
    with pytest.raises(NotFound, match="no compute target `gpu-cluster`") as caught:
        compute.get("default", "gpu-cluster")
    assert "runyard compute create gpu-cluster" in caught.value.hint


def test_a_target_shows_its_nodes_and_its_queue(served: Served) -> None:
    served.client.compute.create("default", "pool", ComputeSpec(max_nodes=1))
    for run_id in ("exp_1", "exp_2"):
        served.submit(run_id, spec=RunSpec(target="pool", script="train.py"))

    found = served.client.compute.get("default", "pool")
    assert [(node.name, node.run_id) for node in found.nodes] == [("node-0", "exp_1")]
    assert [run.run_id for run in found.waiting] == ["exp_2"]
    assert "1 of 1 taken by `exp_1`" in found.waiting[0].waits_for
    with pytest.raises(Conflict, match="in use"):
        served.client.compute.delete("default", "pool")


def test_local_can_be_looked_at_and_not_made(served: Served) -> None:
    served.submit("exp_1")

    assert [run.run_id for run in served.client.compute.get("default", "local").running] == ["exp_1"]
    with pytest.raises(InvalidArgument, match="cannot be called `local`"):
        served.client.compute.create("default", "local", SPEC)
    with pytest.raises(InvalidArgument, match="cannot be called `local`"):
        served.client.compute.delete("default", "local")


def test_a_change_of_nothing_or_of_something_unknown_is_refused(served: Served) -> None:
    served.client.compute.create("default", "pool", SPEC)

    with pytest.raises(InvalidArgument, match="Nothing is changed"):
        served.client.compute.update("default", "pool")
    with pytest.raises(InvalidArgument, match="vm_size"):
        served.client.compute.update("default", "pool", vm_size="STANDARD_D2")
    with pytest.raises(InvalidArgument, match="at least 3 and at most 2"):
        served.client.compute.update("default", "pool", min_nodes=3)


def test_a_runs_code_sees_no_other_runs_on_a_target(served: Served) -> None:
    served.client.compute.create("default", "pool", SPEC)
    for run_id in ("exp_1", "exp_2", "exp_3"):
        served.submit(run_id, spec=RunSpec(target="pool", script="train.py"))

    found = served.as_run("exp_1").compute.get("default", "pool")
    assert [node.run_id for node in found.nodes] == ["exp_1", "another-run"]
    assert ([run.run_id for run in found.running], found.waiting) == (["exp_1"], [])
    assert served.as_run("exp_2").compute.list("default")[0].nodes[0].run_id == "another-run"


def test_a_runs_code_looks_at_targets_and_changes_none(served: Served) -> None:
    served.client.compute.create("default", "pool", SPEC)
    served.submit("exp_1")
    code = served.as_run("exp_1").compute

    assert code.get("default", "pool").spec == SPEC and len(code.list("default")) == 1
    for act in (
        lambda: code.create("default", "mine", SPEC),
        lambda: code.update("default", "pool", max_nodes=9),
        lambda: code.delete("default", "pool"),
    ):
        with pytest.raises(NotAllowed, match="change target"):
            act()
