"""Nodes of one job speak through the engine; each has a lease of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.core.errors import Conflict, InvalidArgument, TooLarge
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.join import GangAnswer, Join, NodeWord, hear_node, look
from runyard.engine.state.gang_board import MOST_FACTS_BYTES, GangBoard
from tests.engine.bench import Bench

WORD = NodeWord(attempt=1, incarnation="a" * 32)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A run on two nodes, both of which joined."""
    bench = Bench(tmp_path, cluster="cluster")
    bench.submit(spec=RunSpec(target="cluster", script="a.py", distribution=DistributionSpec("pytorch", node_count=2)))
    bench.pass_time(1)
    for rank in (0, 1):
        bench.engine.join("exp_1", rank, Join(1, WORD.incarnation, f"host-{rank}", f"10.0.0.{rank}"))
    bench.report(RunStatus.PREPARING)
    return bench


def speak(bench: Bench, rank: int, **facts: Any) -> GangAnswer:
    return hear_node(bench.engine.context, "exp_1", rank, replace(WORD, facts=facts or None))


def listen_for(bench: Bench, seconds: float, *ranks: int) -> None:
    """Let time pass while these nodes speak."""
    for _ in range(int(seconds)):
        bench.pass_time(1)
        for rank in ranks:
            speak(bench, rank)


def test_facts_are_shown_to_all_in_the_order_in_which_nodes_failed(bench: Bench) -> None:
    first = speak(bench, 1, ready={"ports": [1]}, failed={"rank": 2})
    second = speak(bench, 0, failed={"rank": 0})

    assert [(one["rank"], one["host"], one["failed_order"]) for one in second.nodes] == [
        (0, "host-0", 2),
        (1, "host-1", 1),
    ]
    assert second.nodes[1]["facts"]["ready"] == {"ports": [1]}
    assert second.epoch == first.epoch and second.version != first.version
    assert look(bench.engine.context, "exp_1", 1).version == second.version


def test_a_wish_the_end_and_a_restart_are_all_news(bench: Bench) -> None:
    versions = [speak(bench, 0).version]
    bench.engine.cancel("exp_1")
    versions.append(look(bench.engine.context, "exp_1", 1).version)
    epoch = bench.engine.context.gangs.epoch
    bench.restart()
    versions.append(look(bench.engine.context, "exp_1", 1).version)
    bench.report(RunStatus.CANCELED)
    versions.append(look(bench.engine.context, "exp_1", 1).version)

    assert len(set(versions)) == 4
    assert bench.engine.context.gangs.epoch != epoch
    assert speak(bench, 1, ready={}).nodes == []  # nothing is kept of a run that has ended


def test_a_word_of_another_process_is_refused_also_after_a_restart(bench: Bench) -> None:
    other = replace(WORD, incarnation="b" * 32)
    for _ in range(2):
        with pytest.raises(Conflict, match="another process"):
            hear_node(bench.engine.context, "exp_1", 1, other)
        bench.restart()
    with pytest.raises(InvalidArgument, match="there is no node 2"):
        speak(bench, 2)
    with pytest.raises(InvalidArgument, match="at most 16 facts"):
        speak(bench, 1, **{f"fact_{number}": 1 for number in range(17)})


def test_a_silent_node_is_shown_by_its_name_until_it_speaks_again(bench: Bench) -> None:
    listen_for(bench, 29, 0)
    assert bench.run().status is RunStatus.PREPARING
    listen_for(bench, 5, 0)

    assert bench.run().status is RunStatus.NOT_RESPONDING
    assert bench.engine.explained(bench.run()).waits_for.startswith("Nothing was heard of node 1 (host-1) for 3")
    assert speak(bench, 0).nodes[1]["silent"]
    speak(bench, 1)
    assert bench.run().status is RunStatus.PREPARING


def test_a_node_that_died_while_the_server_was_away_is_noticed(bench: Bench) -> None:
    bench.restart()
    listen_for(bench, 32, 0)

    assert bench.run().status is RunStatus.NOT_RESPONDING
    assert bench.engine.context.gangs.silent_nodes("exp_1", bench.clock.monotonic())[0][:2] == (1, "host-1")


def test_a_node_that_ended_is_not_silent(bench: Bench) -> None:
    speak(bench, 1, ended={"status": "Completed"})
    listen_for(bench, 40, 0)

    assert bench.run().status is RunStatus.PREPARING


def test_the_nodes_that_others_wait_for_are_named(bench: Bench) -> None:
    assert bench.engine.explained(bench.run()).waits_for == ""
    speak(bench, 0, ready={})

    assert bench.engine.explained(bench.run()).waits_for.startswith("It waits for node 1 (host-1) of 2 nodes")
    speak(bench, 1, ready={})
    assert bench.engine.explained(bench.run()).waits_for == ""


def test_a_machine_that_the_engine_lost_ends_the_run_though_another_goes_on_talking(bench: Bench) -> None:
    why = "node host-1 does not answer"
    bench.cluster.reports[JobHandle("exp_1", 1)] = JobReport(JobState.GONE, why, EndCause.NODE_LOST)
    for _ in range(6):
        bench.pass_time(1)
        speak(bench, 0)
        bench.engine.heartbeat("exp_1", 1)

    run = bench.run()
    assert run.desired == "fail" and run.desired_error is not None
    assert run.desired_error["code"] == "NodeLost" and why in run.desired_error["message"]


def test_what_nodes_tell_each_other_is_bounded() -> None:
    """A run's token says how many nodes it has; each may tell 256 KiB, and all hear all of it."""
    board = GangBoard()
    for rank in range(4):
        board.hear("exp_1", 1, rank, 0.0, {"ready": "x" * (15 << 20)})
    board.hear("exp_1", 1, 0, 0.0, {"ready": "y" * (15 << 20)})  # in the place of what it told before

    with pytest.raises(TooLarge, match="tell each other") as caught:
        board.hear("exp_1", 1, 4, 0.0, {"ready": "x" * (15 << 20)})
    assert f"{MOST_FACTS_BYTES:,}" in caught.value.why
    board.hear("exp_2", 1, 4, 0.0, {"ready": "x" * (15 << 20)})
