"""What a run waited for stays with its timeline after the wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runyard.compute.base import JobHandle, JobReport, JobState
from runyard.core.compute import INSTANCE, ComputeSpec
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.events import JOINED, RunHost, append_event, list_hosts
from tests.engine.bench import Bench


def waits(bench: Bench, run_id: str = "exp_1") -> dict[str, list[str]]:
    """What the run waited for, by the phase; a later phase of the same name adds to it."""
    found: dict[str, list[str]] = {}
    for phase in bench.run(run_id).timeline:
        found.setdefault(phase.status.value, []).extend(wait.text for wait in phase.waits)
    return found


def submit(bench: Bench, run_id: str = "exp_1", **changes: Any) -> None:
    bench.submit(run_id, spec=RunSpec(script="train.py", **changes))


def test_a_run_that_stood_in_the_queue_says_behind_whom_when_it_is_done(tmp_path: Path) -> None:
    bench = Bench(tmp_path, local_runs=1)
    bench.submit("exp_1")
    bench.submit("exp_2")
    bench.report(RunStatus.COMPLETED, "exp_1")
    bench.pass_time(1)
    for status in (RunStatus.PREPARING, RunStatus.RUNNING, RunStatus.COMPLETED):
        bench.report(status, "exp_2")

    assert waits(bench, "exp_1")["Queued"] == ["Waiting for its supervisor to start on `local`."]
    assert waits(bench, "exp_2") == {
        "NotStarted": [],
        "Queued": [
            "It waits for a free place on `local`: 1 of 1 taken by `exp_1`. It is the next.",
            "Waiting for its supervisor to start on `local`.",
        ],
        "Preparing": [],
        "Running": [],
        "Completed": [],
    }
    assert bench.run("exp_2").waits_for == ""


def test_a_wait_of_another_kind_is_noted_and_one_of_the_same_kind_is_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    box = ComputeSpec(type=INSTANCE, min_nodes=1)
    bench.engine.compute.create("default", "box", box)
    for at in (1, 2, 3):
        submit(bench, f"exp_{at}", target="box")
    bench.pass_time(1)
    bench.report(RunStatus.COMPLETED, "exp_1")
    bench.engine.compute.update("default", "box", {"is_stopped": True})
    bench.pass_time(5)
    third = waits(bench, "exp_3")["Queued"]

    assert len(third) == 2
    assert "taken by `exp_1`. In front of it: `exp_2`." in third[0]
    assert third[1] == "`box` is stopped: `runyard compute start box` lets it run."


def test_the_words_of_an_engine_are_noted_unless_only_a_number_changed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cluster="slurm")
    submit(bench, target="slurm")
    for why in ("3rd of 12 in gpu: (Priority)", "2nd of 11 in gpu: (Priority)", "1st of 10 in gpu: (Resources)"):
        bench.cluster.reports[JobHandle("exp_1", 1)] = JobReport(JobState.WAITING, why)
        bench.pass_time(3)
    bench.report(RunStatus.RUNNING)

    assert waits(bench)["Queued"][1:] == [
        "It is in the queue of `slurm`: 3rd of 12 in gpu: (Priority)",
        "It is in the queue of `slurm`: 1st of 10 in gpu: (Resources)",
    ]


def test_a_target_that_could_not_take_it_is_noted_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.backend.fault = OSError(28, "No space left on device")
    bench.submit()
    bench.pass_time(40)
    bench.backend.fault = None
    bench.pass_time(40)

    faults = [text for text in waits(bench)["Queued"] if "No space left" in text]
    assert len(faults) == 1 and len(bench.backend.jobs_of("exp_1")) == 1


def test_what_takes_time_while_it_prepares_is_told_and_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.submit()
    bench.report(RunStatus.PREPARING)
    bench.report(RunStatus.PREPARING, doing="making the environment `torch`")
    assert bench.engine.explained(bench.run()).waits_for == "making the environment `torch`"
    bench.report(RunStatus.RUNNING)

    assert bench.engine.explained(bench.run()).waits_for == ""
    assert waits(bench)["Preparing"] == ["making the environment `torch`"]


def test_silence_has_a_reason(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.submit()
    bench.report(RunStatus.RUNNING)
    bench.pass_time(32)

    assert bench.run().status is RunStatus.NOT_RESPONDING
    assert waits(bench)["NotResponding"] == [
        "Nothing was heard of its supervisor for 30 s; its target has not called it gone."
    ]


def test_the_machines_of_all_attempts_are_listed_in_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cluster="slurm")
    submit(bench, target="slurm", distribution=DistributionSpec("pytorch", node_count=2))
    for rank in (1, 0):
        joined = {"event": JOINED, "attempt": 1, "rank": rank, "incarnation": "secret"}
        append_event(bench.engine.context.store, "exp_1", {**joined, "host": f"n{rank}", "address": f"10.0.0.{rank}"})

    assert list_hosts(bench.engine.context.store, bench.engine.context.compute, bench.run()) == [
        RunHost(1, 0, "n0", "10.0.0.0"),
        RunHost(1, 1, "n1", "10.0.0.1"),
    ]
