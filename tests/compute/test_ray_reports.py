"""What Ray's tables say, read: every state of a job and every reason for which it waits."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.compute.base import ClusterNode, EndCause, JobHandle, JobReport, JobState
from runyard.compute.ray.link import explain_wait, read_nodes, read_reports

HANDLE = JobHandle("exp_1_aa", 2)
SECOND = JobHandle("exp_1_aa", 22)


def node(name: str, total: float = 4, free: float = 4, **fields: Any) -> dict[str, Any]:
    is_alive = fields.get("is_alive", True)
    usual = {
        "id": f"id-{name}",
        "name": name,
        "address": f"10.0.0.{name[-1]}",
        "is_alive": True,
        "total": {"CPU": total} if is_alive else {},
        "free": {"CPU": free},
        "death": 0,
        "message": "",
    }
    return {**usual, **fields}


def actor(rank: int, state: str = "ALIVE", *, on: str = "n1", handle: JobHandle = HANDLE, **fields: Any) -> Any:
    name = f"runyard-{handle.run_id}-{handle.attempt}-{rank}"
    return {"name": name, "state": state, "node": f"id-{on}", "needs": {"CPU": 4.0}, "started": 1, **fields}


def group(state: str = "PENDING", count: int = 2) -> dict[str, Any]:
    return {"name": "runyard-exp_1_aa-2", "state": state, "count": count, "needs": {"CPU": 2.0}}


def report(*actors: Any, groups: Any = (), nodes: Any = ()) -> JobReport:
    nodes = list(nodes) or [node("n1"), node("n2")]
    view = {"actors": list(actors), "groups": list(groups), "nodes": nodes}
    return read_reports([HANDLE], view)[HANDLE]


def test_a_job_whose_actors_all_live_is_alive() -> None:
    assert report(actor(0), actor(1, on="n2"), groups=[group("CREATED")]) == JobReport(JobState.ALIVE)


def test_a_job_of_which_one_node_has_finished_lives_until_the_others_have() -> None:
    done = actor(1, "DEAD", reason="RAY_KILL", note={"code": 0, "tail": ""})

    assert report(actor(0), done).state is JobState.ALIVE
    assert report(actor(0, "DEAD", note={"code": 0, "tail": ""}), done) == JobReport(JobState.GONE, "", EndCause.ENDED)


def test_attempts_are_told_apart_and_of_one_name_the_living_counts() -> None:
    old = actor(0, "DEAD", reason="RAY_KILL", is_fresh=True, started=9)
    view = {"actors": [actor(0, started=0), old, actor(0, "DEAD", handle=SECOND)], "groups": [], "nodes": [node("n1")]}

    found = read_reports([HANDLE, SECOND], view)
    assert [found[handle].state for handle in (HANDLE, SECOND)] == [JobState.ALIVE, JobState.GONE]


def test_a_process_that_failed_is_quoted() -> None:
    ended = actor(0, "DEAD", reason="RAY_KILL", note={"code": 3, "tail": "runyard: refused\n"})

    assert report(ended) == JobReport(
        JobState.GONE, "its process ended with exit code 3: runyard: refused", EndCause.ENDED
    )


@pytest.mark.parametrize(
    ("fields", "words", "cause"),
    [
        ({"reason": "RAY_KILL", "is_fresh": True}, "it was taken out of Ray", EndCause.CANCELED),
        (
            {"reason": "creation_task_failure_context", "message": "Traceback\n  in f\nOSError: no such python"},
            "it could not be started there: OSError: no such python",
            EndCause.REFUSED,
        ),
        (
            {"reason": "WORKER_DIED", "message": "worker process has died\nmore"},
            "worker process has died",
            EndCause.UNKNOWN,
        ),
    ],
    ids=["killed", "not startable", "worker died"],
)
def test_a_dead_actor_says_why(fields: Any, words: str, cause: EndCause) -> None:
    assert report(actor(0, "DEAD", **fields)) == JobReport(JobState.GONE, words, cause)


def test_a_lost_node_is_named_whatever_the_other_nodes_do() -> None:
    gone = node("n2", is_alive=False, message="missing too many heartbeats")
    died = actor(1, "DEAD", on="n2", reason="NODE_DIED", message="The actor died because its node has died.")

    expected = JobReport(
        JobState.GONE, "Ray lost the node n2 (10.0.0.2): missing too many heartbeats", EndCause.NODE_LOST
    )
    assert report(actor(0), died, nodes=[node("n1"), gone]) == expected
    assert report(actor(0), actor(1, on="n2"), nodes=[node("n1"), gone]) == expected
    assert report(actor(0), died, nodes=[node("n1"), {**gone, "death": 3}]).cause is EndCause.PREEMPTED


def test_a_node_that_died_after_its_part_had_ended_is_no_loss() -> None:
    ended = actor(1, "DEAD", on="n2", reason="NODE_DIED", note={"code": 0, "tail": ""})

    assert report(actor(0), ended, nodes=[node("n1"), node("n2", is_alive=False)]).state is JobState.ALIVE


def test_what_ray_does_not_know_is_gone() -> None:
    assert report() == JobReport(JobState.GONE, "Ray knows no actor of this job")
    assert report(groups=[group()]).state is JobState.WAITING


def test_a_waiting_job_says_what_it_needs_and_what_is_there() -> None:
    busy = [node("n1", free=1), node("n2", free=0)]

    assert report(actor(0, "PENDING_CREATION"), nodes=busy) == JobReport(
        JobState.WAITING, "needs 4 CPU on one node; free now: n1 1 CPU, n2 0 CPU"
    )
    waiting = [actor(0, "PENDING_CREATION"), actor(1, "PENDING_CREATION")]
    assert report(*waiting, groups=[group()], nodes=busy).why == (
        "needs 2 CPU on 2 nodes; free now: n1 1 CPU, n2 0 CPU"
    )
    assert report(*waiting, groups=[group("CREATED")], nodes=busy).why == "Ray starts its workers"
    assert report(actor(0, "PENDING_CREATION")).why == "Ray starts its worker"


@pytest.mark.parametrize(
    ("needs", "count", "words"),
    [
        ({"GPU": 1, "CPU": 1}, 1, "needs 1 CPU, 1 GPU on one node; no node has a GPU"),
        ({"CPU": 64}, 1, "needs 64 CPU on one node; the most that one has is 4 CPU"),
        ({"CPU": 4}, 3, "needs 3 nodes with 4 CPU each; the cluster has 2 such"),
        ({"memory": 2 << 30}, 1, "needs 2.0 GiB memory on one node; no node has any memory"),
        ({"CPU": 1, "tpu": 1}, 1, "needs 1 CPU, 1 tpu on one node; no node has any tpu"),
    ],
)
def test_what_no_node_can_ever_give_is_said(needs: dict[str, float], count: int, words: str) -> None:
    nodes = [node("n1"), node("n2"), node("n3", is_alive=False)]

    assert explain_wait(needs, count, nodes) == words


def test_a_large_cluster_is_not_recited() -> None:
    nodes = [node(f"n{index}", free=0) for index in range(1, 8)]

    assert explain_wait({"CPU": 1}, 1, nodes).endswith("n4 0 CPU, and 3 more nodes")


def test_dead_nodes_are_listed_unless_they_came_back() -> None:
    dead = node("n2", is_alive=False, message="gone")
    again = node("n1", is_alive=False, message="gone")
    view = {"actors": [], "groups": [], "nodes": [node("n1"), dead, again]}

    assert read_nodes(view) == [
        ClusterNode("n1", "10.0.0.1", "alive", cpus=4),
        ClusterNode("n2", "10.0.0.2", "dead", note="gone"),
    ]
