"""Pools of virtual nodes: who gets nodes, who waits, and what the status says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.core.compute import INSTANCE, ComputeSpec, ComputeTarget
from runyard.core.errors import Conflict, InvalidArgument, NotFound, SubmitRejected
from runyard.core.records import Workspace
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.core.statuses import RunStatus
from tests.engine.bench import Bench
from tests.engine.test_schedule import started

POOL = ComputeSpec(max_nodes=4, idle_seconds=60)


def make(bench: Bench, name: str = "pool", spec: ComputeSpec = POOL) -> ComputeTarget:
    return bench.engine.compute.create("default", name, spec)[0]


def look(bench: Bench, name: str = "pool") -> ComputeTarget:
    return bench.engine.compute.get("default", name)


def submit(bench: Bench, run_id: str, nodes: int = 1, target: str = "pool", **spec: Any) -> None:
    distribution = DistributionSpec("pytorch", node_count=nodes)
    bench.submit(run_id, spec=RunSpec(target=target, script="train.py", distribution=distribution, **spec))


def waits_for(bench: Bench, run_id: str) -> str:
    return bench.engine.explained(bench.run(run_id)).waits_for


def test_a_run_takes_as_many_nodes_as_it_asks_for(bench: Bench) -> None:
    make(bench)
    submit(bench, "exp_1", nodes=3)
    submit(bench, "exp_2")

    found = look(bench)
    assert [(node.name, node.run_id) for node in found.nodes] == [
        ("node-0", "exp_1"),
        ("node-1", "exp_1"),
        ("node-2", "exp_1"),
        ("node-3", "exp_2"),
    ]
    assert [(run.run_id, run.node_count) for run in found.running] == [("exp_1", 3), ("exp_2", 1)]


def test_a_full_pool_queues_first_come_first_served(bench: Bench) -> None:
    make(bench)
    submit(bench, "exp_1", nodes=3)
    submit(bench, "exp_2", nodes=2)
    submit(bench, "exp_3", nodes=1)

    assert started(bench) == ["exp_1"], "a small run must not overtake one that waits for nodes"
    assert waits_for(bench, "exp_2") == (
        "It waits for 2 free nodes of `pool`: 3 of 4 taken by `exp_1`. It is the next."
    )
    assert waits_for(bench, "exp_3").endswith("In front of it: `exp_2`.")
    assert [run.run_id for run in look(bench).waiting] == ["exp_2", "exp_3"]

    bench.report(RunStatus.COMPLETED, "exp_1")
    bench.engine.loop.tick()

    assert started(bench) == ["exp_1", "exp_2", "exp_3"]
    assert look(bench).waiting == []


def test_pools_and_local_do_not_wait_for_one_another(bench: Bench) -> None:
    make(bench, "one", replace(POOL, max_nodes=1))
    make(bench, "other", replace(POOL, max_nodes=1))
    for run_id, target in (("a", "one"), ("b", "one"), ("c", "other"), ("d", "local")):
        submit(bench, run_id, target=target)

    assert started(bench) == ["a", "c", "d"]


def test_a_place_on_local_is_one_run_whatever_its_nodes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, local_runs=2)
    submit(bench, "exp_1", nodes=8, target="local")
    submit(bench, "exp_2", nodes=8, target="local")
    submit(bench, "exp_3", target="local")

    assert started(bench) == ["exp_1", "exp_2"]


def test_more_nodes_than_a_pool_has_are_refused_before_anything_is_stored(bench: Bench) -> None:
    make(bench)
    with pytest.raises(SubmitRejected, match="asks for 5 nodes of `pool`") as caught:
        submit(bench, "exp_1", nodes=5)

    assert "has 4 at most" in caught.value.why and "--max-nodes 5" in caught.value.hint
    assert bench.store.find_run("exp_1") is None


@pytest.mark.parametrize(("nodes", "processes"), [(0, 1), (-5, 1), (1, 0)])
def test_a_job_without_nodes_or_processes_is_refused(bench: Bench, nodes: int, processes: int) -> None:
    distribution = DistributionSpec("pytorch", node_count=nodes, processes_per_node=processes)
    with pytest.raises(SubmitRejected, match=f"{nodes} nodes with {processes} processes each"):
        bench.submit("exp_1", spec=RunSpec(script="train.py", distribution=distribution))


def test_a_target_belongs_to_its_workspace(bench: Bench) -> None:
    bench.store.put_workspace(Workspace(id="w", name="other", created_at=bench.clock.now()))
    make(bench)

    with pytest.raises(SubmitRejected, match="no compute target `pool` in workspace `other`"):
        bench.submit("exp_1", workspace="other", spec=RunSpec(target="pool", script="train.py"))
    with pytest.raises(NotFound, match="`pool` in workspace `other`"):
        bench.engine.compute.get("other", "pool")


@pytest.mark.parametrize("target", ["amlcompute", "containerinstance"])
def test_a_pool_of_a_runs_own_needs_not_be_made(bench: Bench, target: str) -> None:
    for at in range(3):
        submit(bench, f"exp_{at}", nodes=20, target=target)

    assert len(started(bench)) == 3


def test_a_restarted_server_knows_the_pools_who_is_on_them_and_who_waits(bench: Bench) -> None:
    make(bench)
    submit(bench, "exp_1", nodes=3)
    submit(bench, "exp_2", nodes=2)

    bench.restart()

    assert started(bench) == ["exp_1"]
    assert "3 of 4 taken by `exp_1`" in waits_for(bench, "exp_2")
    assert len(look(bench).nodes) == 3
    bench.report(RunStatus.COMPLETED, "exp_1")
    bench.engine.loop.tick()
    assert started(bench) == ["exp_1", "exp_2"]


def test_idle_nodes_go_after_their_time_and_the_least_stay(bench: Bench) -> None:
    make(bench, spec=replace(POOL, min_nodes=1))
    assert [node.run_id for node in look(bench).nodes] == [None]
    submit(bench, "exp_1", nodes=3)
    assert [node.run_id for node in look(bench).nodes] == ["exp_1"] * 3

    bench.report(RunStatus.COMPLETED, "exp_1")
    assert [node.run_id for node in look(bench).nodes] == [None] * 3
    bench.clock.seconds += 61
    assert [node.run_id for node in look(bench).nodes] == [None]


def test_a_bigger_pool_lets_waiting_runs_start(bench: Bench) -> None:
    make(bench)
    submit(bench, "exp_1", nodes=3)
    submit(bench, "exp_2", nodes=2)
    bench.engine.compute.update("default", "pool", {"max_nodes": 5})
    bench.engine.loop.tick()

    assert started(bench) == ["exp_1", "exp_2"]


def test_a_run_that_no_longer_fits_says_so_and_holds_up_nobody(bench: Bench) -> None:
    make(bench)
    submit(bench, "exp_1", nodes=2)
    submit(bench, "exp_2", nodes=4)
    bench.engine.compute.update("default", "pool", {"max_nodes": 3})
    submit(bench, "exp_3", nodes=1)

    assert started(bench) == ["exp_1", "exp_3"]
    assert waits_for(bench, "exp_2") == (
        "It asks for 4 nodes and `pool` has 3 at most now: `runyard compute update pool --max-nodes 4` makes room."
    )


def test_a_stopped_instance_starts_nothing_until_it_is_started(bench: Bench) -> None:
    make(bench, "mine", ComputeSpec(type=INSTANCE, min_nodes=1, is_stopped=True))
    submit(bench, "exp_1", target="mine")
    assert started(bench) == [] and "`mine` is stopped" in waits_for(bench, "exp_1")

    bench.engine.compute.update("default", "mine", {"is_stopped": False})
    bench.engine.loop.tick()

    assert started(bench) == ["exp_1"]


def test_making_the_same_target_again_is_the_same_and_another_is_a_conflict(bench: Bench) -> None:
    made = make(bench)
    same, is_new = bench.engine.compute.create("default", "pool", POOL)

    assert (same, is_new) == (made, False)
    with pytest.raises(Conflict, match="with other settings") as caught:
        make(bench, spec=replace(POOL, max_nodes=9))
    assert "compute update pool" in caught.value.hint


def test_a_target_in_use_is_not_deleted(bench: Bench) -> None:
    make(bench)
    submit(bench, "exp_1")
    with pytest.raises(Conflict, match="`pool` is in use") as caught:
        bench.engine.compute.delete("default", "pool")
    assert "`exp_1`" in caught.value.why

    bench.report(RunStatus.COMPLETED, "exp_1")
    for _ in range(2):
        bench.engine.compute.delete("default", "pool")

    with pytest.raises(SubmitRejected, match="no compute target `pool`"):
        submit(bench, "exp_2")
    bench.restart()
    assert bench.engine.compute.list("default") == []


@pytest.mark.parametrize("name", ["local", "amlcompute", "containerinstance", "AmlCompute"])
def test_reserved_names_are_refused(bench: Bench, name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be called"):
        make(bench, name)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"min_nodes": 5}, "at least 5 and at most 4"),
        ({"min_nodes": -1}, "at least -1"),
        ({"max_nodes": 10**12}, "1000 nodes at most"),
        ({"idle_seconds": -1}, "idle_seconds_before_scaledown is -1"),
        ({"idle_seconds": 10**18}, "idle_seconds_before_scaledown is 1000000000000000000"),
        ({"type": "HDInsight"}, "no compute type 'HDInsight'"),
    ],
)
def test_numbers_that_no_pool_can_have_are_refused(bench: Bench, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        make(bench, spec=replace(POOL, **changes))


def test_local_is_shown_like_a_target(tmp_path: Path) -> None:
    bench = Bench(tmp_path, local_runs=1)
    bench.submit("exp_1")
    bench.submit("exp_2")

    found = look(bench, "local")
    assert ([run.run_id for run in found.running], [run.run_id for run in found.waiting]) == (["exp_1"], ["exp_2"])
    assert "It waits for a free place on `local`" in found.waiting[0].waits_for
