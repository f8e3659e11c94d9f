"""Runs on machines of an engine: handed over by threads, explained and ended in that engine's words."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.base import EndCause, JobHandle, JobReport, JobRequest, JobState
from runyard.core.errors import Conflict, SubmitRejected
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.engine import Engine
from runyard.engine.runs.join import Join
from runyard.engine.state.releases import CallThreads
from runyard.testing.compute_backend import FakeBackend
from tests.engine.bench import Bench
from tests.waiting import wait_for

JOB = JobHandle("exp_1", 1)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, cluster="slurm")


def submit(bench: Bench, run_id: str = "exp_1", **changes: Any) -> None:
    bench.submit(run_id, spec=RunSpec(script="train.py", **{"target": "slurm", **changes}))


def test_a_run_in_the_queue_of_its_engine_waits_for_what_that_engine_says(bench: Bench) -> None:
    submit(bench)
    bench.cluster.reports[JOB] = JobReport(JobState.WAITING, "3rd in partition gpu: (Resources)")
    bench.pass_time(3)
    assert bench.engine.explained(bench.run()).waits_for == (
        "It is in the queue of `slurm`: 3rd in partition gpu: (Resources)"
    )

    bench.cluster.reports[JOB] = JobReport(JobState.WAITING, "partition gpu is down")
    bench.pass_time(600)
    assert "partition gpu is down" in bench.engine.explained(bench.run()).waits_for
    assert bench.run().status is RunStatus.QUEUED
    bench.restart()
    bench.pass_time(3)
    assert "partition gpu is down" in bench.engine.explained(bench.run()).waits_for
    assert len(bench.cluster.submitted) == 1

    bench.cluster.reports[JOB] = JobReport(JobState.ALIVE)
    bench.pass_time(1)
    assert "Waiting for its supervisor to start" in bench.engine.explained(bench.run()).waits_for
    bench.report(RunStatus.RUNNING)
    assert bench.engine.explained(bench.run()).waits_for == ""


ENDS = {
    EndCause.NODE_LOST: (RunStatus.FAILED, "NodeLost", 40),
    EndCause.PREEMPTED: (RunStatus.FAILED, "Preempted", 40),
    EndCause.TIME_LIMIT: (RunStatus.CANCELED, "RunTimeLimitExceeded", 10),
    EndCause.CANCELED: (RunStatus.CANCELED, "CanceledAtTarget", 10),
    EndCause.ENDED: (RunStatus.FAILED, "NodeLost", 10),
}


@pytest.mark.parametrize("cause", ENDS, ids=lambda cause: cause.name)
def test_a_job_that_is_gone_ends_its_run_in_the_words_of_the_engine_once_it_is_silent(
    bench: Bench, cause: EndCause
) -> None:
    status, code, silence_s = ENDS[cause]
    submit(bench)
    bench.report(RunStatus.RUNNING)
    bench.cluster.reports[JOB] = JobReport(JobState.GONE, "node n3: NODE_FAIL", cause)
    bench.pass_time(silence_s - 1)
    assert not bench.run().status.is_terminal

    bench.pass_time(2)

    run = bench.run()
    assert run.status is status and run.error is not None
    assert run.error["code"] == code and "node n3: NODE_FAIL" in run.error["message"]
    bench.pass_time(1)
    assert bench.cluster.ended == [JOB]


def test_a_job_that_its_engine_will_never_start_fails_at_once_with_what_it_says(bench: Bench) -> None:
    submit(bench)
    bench.cluster.reports[JOB] = JobReport(JobState.GONE, "QOSMaxGRESPerUser", EndCause.REFUSED)
    bench.pass_time(4)

    run = bench.run()
    assert run.status is RunStatus.FAILED and run.error is not None and run.error["code"] == "SubmitRejected"
    assert "QOSMaxGRESPerUser" in run.error["message"] and "--plan" in run.error["details"]["hint"]


def test_a_run_whose_engine_calls_it_gone_while_it_speaks_goes_on(bench: Bench) -> None:
    submit(bench)
    bench.report(RunStatus.RUNNING)
    bench.cluster.reports[JOB] = JobReport(JobState.GONE)
    for _ in range(60):
        bench.pass_time(4.5)
        bench.engine.heartbeat("exp_1", 1)

    assert bench.run().status is RunStatus.RUNNING and bench.run().desired is None


@pytest.mark.parametrize("state", [JobState.WAITING, JobState.UNKNOWN])
def test_a_canceled_job_of_the_queue_ends_at_once_whether_its_engine_answers_or_not(
    bench: Bench, state: JobState
) -> None:
    submit(bench)
    bench.cluster.reports[JOB] = JobReport(state)
    bench.pass_time(3)

    assert bench.engine.cancel("exp_1").status is RunStatus.CANCELED
    with pytest.raises(Conflict, match="nothing of attempt 1 may start"):
        bench.engine.join("exp_1", 0, Join(1, "a" * 32))
    bench.pass_time(1)
    assert bench.cluster.ended == [JOB]


def test_a_canceled_job_whose_node_has_joined_ends_with_its_own_word(bench: Bench) -> None:
    submit(bench)
    bench.engine.join("exp_1", 0, Join(1, "a" * 32))
    assert bench.engine.cancel("exp_1").status is RunStatus.CANCEL_REQUESTED
    assert bench.cluster.canceled == [JOB]
    bench.restart()
    assert bench.engine.cancel("exp_1").status is RunStatus.CANCEL_REQUESTED

    assert bench.report(RunStatus.CANCELED).status is RunStatus.CANCELED


def test_an_engine_that_is_away_is_asked_again_to_let_go_and_by_the_next_server(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def away(handle: JobHandle) -> None:
        tries.append(handle)
        raise OSError("connection refused")

    submit(bench)
    bench.report(RunStatus.RUNNING)
    monkeypatch.setattr(bench.cluster, "end", away)
    bench.report(RunStatus.COMPLETED)
    bench.pass_time(8)
    assert tries == [JOB] * 3 and bench.engine.context.spool.list_runs() == ["exp_1"]

    bench.restart()
    bench.pass_time(40)
    assert len(tries) == 8 and bench.engine.context.spool.list_runs() == []

    submit(bench, "exp_2")
    monkeypatch.undo()
    bench.report(RunStatus.COMPLETED, "exp_2")
    bench.pass_time(1)
    assert bench.cluster.ended == [JobHandle("exp_2", 1)] and bench.engine.context.spool.list_runs() == []


class Hanging(FakeBackend):
    """Its engine does not answer until `gate` is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()

    def submit(self, request: JobRequest) -> JobHandle:
        self.entered.set()
        assert self.gate.wait(30)
        return super().submit(request)


def test_a_submit_that_hangs_holds_up_no_request_no_other_target_and_not_the_loop(tmp_path: Path) -> None:
    """A86."""
    bench = Bench(tmp_path, cluster="slurm")
    stuck = Hanging()
    bench.backends = {"local": bench.backend, "slurm": bench.cluster, "stuck": stuck}
    engine = a_threaded_engine(bench)
    try:
        for number in range(70):  # more than there are stripes of locks and threads
            submit(bench, f"stuck_{number}", target="stuck")
        assert stuck.entered.wait(30)
        assert bench.run("stuck_0").status is RunStatus.QUEUED
        assert "being handed to `stuck`" in engine.explained(bench.run("stuck_0")).waits_for

        submit(bench, "exp_1")
        bench.submit("here")
        wait_for(lambda: bench.cluster.jobs_of("exp_1"))
        engine.loop.tick()
        assert bench.report(RunStatus.RUNNING, "exp_1").status is RunStatus.RUNNING
        assert engine.cancel("stuck_0").status is RunStatus.CANCELED

        stuck.gate.set()
        wait_for(lambda: len(stuck.submitted) == 70 and len(engine.context.compute.releases) == 1)
        assert {request.run_id for request in stuck.submitted} == {f"stuck_{number}" for number in range(70)}
    finally:
        stuck.gate.set()
        engine.stop()


def test_a_run_that_ends_before_its_slow_submit_returns_is_given_back_after_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cluster="slurm")
    stuck = Hanging()
    bench.backends = {"local": bench.backend, "stuck": stuck}
    engine = a_threaded_engine(bench)
    try:
        submit(bench, target="stuck")
        assert stuck.entered.wait(30)
        bench.report(RunStatus.RUNNING)
        bench.report(RunStatus.COMPLETED)
        engine.loop.tick()
        wait_for(lambda: stuck.ended == [JOB])

        stuck.gate.set()
        wait_for(lambda: len(stuck.submitted) == 1 and len(engine.context.compute.releases) == 1)
        engine.loop.tick()
        wait_for(lambda: stuck.ended == [JOB, JOB] and engine.context.spool.list_runs() == [])
    finally:
        stuck.gate.set()
        engine.stop()


def test_a_target_that_refuses_in_a_thread_ends_the_run_and_one_that_cannot_now_is_asked_again(bench: Bench) -> None:
    submit(bench)
    bench.cluster.fault = SubmitRejected("Slurm refused the job.", why="Invalid account.")
    submit(bench, "exp_2")
    assert bench.run("exp_2").status is RunStatus.FAILED

    bench.cluster.fault = TimeoutError("sbatch did not answer")
    submit(bench, "exp_3")
    assert "sbatch did not answer" in bench.engine.explained(bench.run("exp_3")).waits_for
    bench.cluster.fault = None
    bench.restart()
    bench.pass_time(2)
    assert [job.attempt for job in bench.cluster.jobs_of("exp_3")] == [1]


def a_threaded_engine(bench: Bench) -> Engine:
    """Put an engine with threads of its own in the place of the bench's."""
    context = bench.engine.context
    bench.engine = Engine(
        settings=context.settings,
        store=bench.store,
        artifacts=bench.artifacts,
        address=context.addresses.local,
        node_address=context.addresses.for_nodes,
        backends=bench.backends,
        clock=bench.clock,
        threads=CallThreads(),
        find_gpus=list,
    )
    bench.engine.start(thread=False)
    return bench.engine


def seconds_until(bench: Bench, shown: Callable[[], bool]) -> int:
    for seconds in range(1, 200):
        bench.pass_time(1)
        if shown():
            return seconds
    raise AssertionError("never shown")


def test_r9_a_dead_supervisor_is_shown_within_35_seconds_and_a_dead_node_is_named_within_60(bench: Bench) -> None:
    """R9, from the death on: its last word is as young as can be, and the engine takes 15 s to miss the node."""
    lost = JobReport(JobState.GONE, "node n3 is down", EndCause.NODE_LOST)
    for run_id, max_attempts in (("silent", 1), ("once", 1), ("twice", 2)):
        submit(bench, run_id, max_attempts=max_attempts)
        bench.report(RunStatus.RUNNING, run_id)
    assert seconds_until(bench, lambda: bench.run("silent").status is RunStatus.NOT_RESPONDING) <= 35

    for run_id in ("once", "twice"):
        bench.engine.heartbeat(run_id, 1)
    bench.pass_time(15)
    for run_id in ("once", "twice"):
        bench.cluster.reports[JobHandle(run_id, 1)] = lost
    named = seconds_until(bench, lambda: "node n3 is down" in str(bench.run("twice").attempts))
    ended = named + seconds_until(bench, lambda: "node n3 is down" in str(bench.run("once").error))
    assert 15 + named <= 60 and 15 + ended <= 60
    assert bench.run("once").status is RunStatus.FAILED
    assert 15 + ended + seconds_until(bench, lambda: bench.run("twice").attempt == 2) <= 60
