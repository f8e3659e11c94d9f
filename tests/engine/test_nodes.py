"""Nodes of a cluster take their part of an attempt: each once, for good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.join import Join
from tests.engine.bench import Bench

FIRST = Join(attempt=1, incarnation="a" * 32, host="node1", address="10.0.0.1")
OTHER = replace(FIRST, incarnation="b" * 32, host="node2")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path, cluster="cluster")
    two = DistributionSpec("pytorch", node_count=2)
    bench.submit(spec=RunSpec(target="cluster", script="train.py", arguments=["--password", "hush"], distribution=two))
    bench.pass_time(1)
    return bench


def test_a_node_gets_its_job_and_gets_it_again(bench: Bench) -> None:
    job = bench.engine.join("exp_1", 1, FIRST)

    assert (job.run_id, job.attempt, job.node_rank, job.node_count) == ("exp_1", 1, 1, 2)
    assert job.spec.arguments == ["--password", "hush"]
    assert (job.token, job.submitter, job.bundle) == ("", {}, bench.engine.bundle().key)
    assert job.incarnation == FIRST.incarnation
    assert bench.engine.join("exp_1", 1, FIRST) == job


def test_a_second_process_for_the_node_gets_nothing_also_after_a_restart(bench: Bench) -> None:
    bench.engine.join("exp_1", 0, FIRST)

    with pytest.raises(Conflict, match="another process, on node1"):
        bench.engine.join("exp_1", 0, OTHER)
    bench.restart()
    with pytest.raises(Conflict, match="another process, on node1"):
        bench.engine.join("exp_1", 0, OTHER)
    assert bench.engine.join("exp_1", 1, OTHER).node_rank == 1


@pytest.mark.parametrize("said", [replace(FIRST, attempt=2), replace(FIRST, attempt=0)], ids=["later", "earlier"])
def test_another_attempt_than_the_present_one_is_refused(bench: Bench, said: Join) -> None:
    with pytest.raises(Conflict, match="is at attempt 1"):
        bench.engine.join("exp_1", 0, said)


def test_nothing_of_a_run_that_has_ended_starts(bench: Bench) -> None:
    bench.report(RunStatus.FAILED)

    with pytest.raises(Conflict, match="Failed"):
        bench.engine.join("exp_1", 0, FIRST)


def test_a_run_of_the_servers_own_machine_has_no_nodes_to_join(bench: Bench) -> None:
    bench.submit("exp_2")

    with pytest.raises(Conflict, match="not one that nodes of a cluster take part in"):
        bench.engine.join("exp_2", 0, FIRST)


@pytest.mark.parametrize("incarnation", ["", "../x", "A" * 32, "a" * 65])
def test_an_incarnation_is_hex(bench: Bench, incarnation: str) -> None:
    with pytest.raises(InvalidArgument, match="incarnation"):
        bench.engine.join("exp_1", 0, replace(FIRST, incarnation=incarnation))


def test_a_node_beyond_the_last_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="there is no node 2"):
        bench.engine.join("exp_1", 2, FIRST)
