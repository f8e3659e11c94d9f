"""What squeue, sacct and sinfo print becomes reports in our words."""

from __future__ import annotations

import pytest

from runyard.compute.base import ClusterNode, EndCause, JobState
from runyard.compute.slurm.cluster import (
    SEPARATOR,
    read_jobs,
    read_longest,
    read_nodes,
    read_partitions,
    read_places,
    report,
)

NAME = "runyard-exp_1_0000abcd-1"


def line(*fields: str) -> str:
    return SEPARATOR.join(fields) + "\n"


def queued(state: str, reason: str = "None", nodes: str = "", starts: str = "N/A", comment: str = "(null)") -> str:
    return line("17", NAME, state, reason, nodes, "main", starts, comment)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (queued("PENDING"), "Slurm has not looked at it yet"),
        (queued("PENDING", "Resources"), "the nodes it needs are busy (Resources)"),
        (queued("PENDING", "Priority"), "jobs with a higher priority come first (Priority)"),
        (queued("PENDING", "PartitionDown"), "its partition is down (PartitionDown)"),
        (
            queued("PENDING", "ReqNodeNotAvail, UnavailableNodes:node[3-4]"),
            "a node that it needs is not available (ReqNodeNotAvail, UnavailableNodes:node[3-4])",
        ),
        (
            queued("PENDING", "QOSMaxJobsPerUserLimit"),
            "a limit of its quality of service is reached (QOSMaxJobsPerUserLimit)",
        ),
        (queued("PENDING", "AssocGrpCpuLimit"), "a limit of its account is reached (AssocGrpCpuLimit)"),
        (queued("PENDING", "launch failed requeued held"), "Slurm holds it back (launch failed requeued held)"),
        (queued("CONFIGURING", nodes="node2"), "node2 is being prepared"),
    ],
)
def test_a_job_that_waits_says_why(text: str, why: str) -> None:
    found = report(read_jobs(text)[NAME])

    assert (found.state, found.why) == (JobState.WAITING, f"Slurm job 17 waits in partition main: {why}")


def test_a_job_in_a_queue_says_its_place_and_when_it_is_expected_to_start() -> None:
    job = read_jobs(queued("PENDING", "Priority", starts="2026-11-15T16:00:00"))[NAME]
    places = read_places("12 main\n17 main\n5 other\n\nslurm_load_jobs error\n18 main\n")

    assert report(job, place=places[17]).why.endswith(
        "(Priority) - place 2 of 3 - Slurm expects to start it at 2026-11-15T16:00:00"
    )
    assert places[5] == (1, 1)


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "SOMETHING_NEW"])
def test_a_job_that_slurm_has_not_ended_lives(state: str) -> None:
    found = report(read_jobs(queued(state, nodes="node[2-3]"))[NAME])

    assert (found.state, found.why) == (JobState.ALIVE, "Slurm job 17 on node[2-3]")


@pytest.mark.parametrize(
    ("text", "cause", "why"),
    [
        (queued("COMPLETED", nodes="node2"), EndCause.ENDED, "Slurm job 17 ended (COMPLETED)."),
        (
            queued("FAILED", "NonZeroExitCode", "node2", comment="exit 127: python3.9: not found"),
            EndCause.ENDED,
            "Slurm job 17 ended with an error (FAILED, NonZeroExitCode). exit 127: python3.9: not found",
        ),
        (
            queued("TIMEOUT", "TimeLimit", "node2"),
            EndCause.TIME_LIMIT,
            "Slurm job 17 was ended by Slurm at its time limit (TIMEOUT).",
        ),
        (queued("CANCELLED by 1000"), EndCause.CANCELED, "Slurm job 17 was cancelled in Slurm (CANCELLED by 1000)."),
        (
            queued("OUT_OF_MEMORY", nodes="node2"),
            EndCause.ENDED,
            "Slurm job 17 was ended by Slurm for using more memory than it had asked for (OUT_OF_MEMORY).",
        ),
        (
            queued("PREEMPTED", nodes="node2"),
            EndCause.PREEMPTED,
            "Slurm job 17 was preempted: Slurm gave its nodes to another job (PREEMPTED).",
        ),
        (
            queued("NODE_FAIL", "NodeDown", "node[2-3]"),
            EndCause.NODE_LOST,
            "Slurm job 17 was ended by Slurm because a node failed (NODE_FAIL, NodeDown); its nodes were node[2-3].",
        ),
    ],
)
def test_a_job_that_ended_says_how(text: str, cause: EndCause, why: str) -> None:
    found = report(read_jobs(text)[NAME])

    assert (found.state, found.cause, found.why) == (JobState.GONE, cause, why)


def test_a_lost_node_is_named() -> None:
    job = read_jobs(queued("NODE_FAIL", nodes="node[2-3]"))[NAME]

    assert report(job, lost=["node3"]).why.endswith("because a node failed (NODE_FAIL): node3 is down.")


def test_of_jobs_with_one_name_the_living_counts_and_strange_lines_do_not() -> None:
    text = (
        line("9", NAME, "FAILED", "None", "node2", "main", "N/A", "(null)")
        + line("10", NAME, "RUNNING", "None", "node2", "main", "N/A", "(null)")
        + line("11", NAME, "CANCELLED", "None", "", "main", "N/A", "two\nlines")
        + line("12", "somebody-elses", "RUNNING", "None", "node2", "main", "N/A", "(null)")
        + line("13_[1-4]", NAME, "PENDING", "None", "", "main", "N/A", "(null)")
        + "squeue: a warning\n"
    )

    assert {name: job.number for name, job in read_jobs(text).items()} == {NAME: 10}


def test_nodes_and_partitions_are_listed_once() -> None:
    text = line("node2", "10.77.0.2", "idle", "4", "2000", "gpu:a100:2(S:0-1),gpu:4,shard:8", "none") * 2
    text += line("node3", "10.77.0.3", "down*", "64+", "2000", "(null)", "Not responding")

    assert read_nodes(text) == [
        ClusterNode("node2", "10.77.0.2", "idle", 4, 6, 2000 * 1024**2),
        ClusterNode("node3", "10.77.0.3", "down*", 64, 0, 2000 * 1024**2, "Not responding"),
    ]
    assert read_longest("main* 1-02:03:00\nshort 30:00\nlow infinite\n\n") == {"main": 1563, "": 1563, "short": 30}
    assert read_partitions("main\nlow\nmain\n") == ["main", "low"]
