"""A lost attempt is followed by the next where its user allowed it, and never while it may live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.core.errors import Conflict, StoreUnavailable, SubmitRejected
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.events import JOINED, append_event
from runyard.engine.runs.join import Join
from tests.engine.bench import Bench, log_frame

FIRST, SECOND = JobHandle("exp_1", 1), JobHandle("exp_1", 2)
LOST = JobReport(JobState.GONE, "node n7 does not answer", EndCause.NODE_LOST)
PREEMPTED = JobReport(JobState.GONE, "preempted for job 99", EndCause.PREEMPTED)
ALIVE = JobReport(JobState.ALIVE)
SECRET = "hunter2-hunter2"


def a_spec(**changes: Any) -> RunSpec:
    return RunSpec(script="train.py", **{"target": "ray", "max_attempts": 3, **changes})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, cluster="ray")


@pytest.fixture
def running(bench: Bench) -> Bench:
    spec = a_spec(arguments=["--password", SECRET])
    bench.submit(spec=spec)
    bench.engine.join("exp_1", 0, Join(1, "a" * 32, host="n7"))
    bench.report(RunStatus.RUNNING)
    return bench


def attempts(bench: Bench, run_id: str = "exp_1") -> list[int]:
    return [job.attempt for job in bench.cluster.jobs_of(run_id)]


def lose(bench: Bench, report: JobReport = LOST, handle: JobHandle = FIRST) -> None:
    bench.cluster.reports[handle] = report


@pytest.mark.parametrize("number", [0, -1, 101])
def test_a_number_of_attempts_that_makes_no_sense_is_refused(bench: Bench, number: int) -> None:
    with pytest.raises(SubmitRejected, match=f"asks for {number} attempts"):
        bench.submit(spec=a_spec(max_attempts=number))


def test_a_lost_node_is_followed_by_the_next_attempt_a_lease_and_a_margin_after_its_last_word(running: Bench) -> None:
    lose(running)
    running.pass_time(4)

    run = running.run()
    assert (run.status, run.attempt, run.due_attempt) == (RunStatus.QUEUED, 1, 2)
    assert (run.attempts[0].code, run.attempts[0].host) == ("NodeLost", "n7")
    assert "node n7 does not answer" in run.attempts[0].why
    assert "Attempt 1 was given up" in running.engine.explained(run).waits_for
    assert running.cluster.ended == [FIRST]

    running.pass_time(35)
    assert attempts(running) == [1]
    running.pass_time(3)

    assert attempts(running) == [1, 2]
    first, second = running.cluster.jobs_of("exp_1")
    assert first.token != second.token and first.cookie != second.cookie
    assert second.spec.arguments[-1] == SECRET and SECRET not in str(running.run())
    running.report(RunStatus.RUNNING, attempt=2)
    running.report(RunStatus.COMPLETED, attempt=2)
    assert [phase.status.value for phase in running.run().timeline] == [
        *["NotStarted", "Queued", "Running"],
        *["Queued", "Running", "Completed"],
    ]
    running.pass_time(1)
    assert running.cluster.ended == [FIRST, SECOND] and running.engine.context.spool.list_runs() == []


def test_a_run_sent_to_a_machine_that_was_dead_already_is_started_again_whatever_its_user_allowed(bench: Bench) -> None:
    bench.submit(spec=a_spec(max_attempts=1))
    lose(bench)
    bench.pass_time(4)

    assert attempts(bench) == [1, 2]
    assert [(one.code, one.host) for one in bench.run().attempts] == [("NeverStarted", "")]
    with pytest.raises(Conflict, match="nothing of attempt 1 may start"):
        bench.engine.join("exp_1", 0, Join(1, "a" * 32))
    bench.engine.join("exp_1", 0, Join(2, "b" * 32, host="n8"))
    bench.report(RunStatus.RUNNING, attempt=2)
    lose(bench, handle=SECOND)
    bench.pass_time(60)

    run = bench.run()
    assert (run.status, attempts(bench)) == (RunStatus.FAILED, [1, 2])
    assert run.error is not None and run.error["code"] == "NodeLost"
    assert "attempt 1 of 1, besides 1 of which nothing began" in run.error["message"]


def test_a_cluster_that_loses_every_machine_is_not_tried_for_ever(bench: Bench) -> None:
    bench.submit(spec=a_spec(max_attempts=1))
    for number in (1, 2, 3, 4):
        lose(bench, handle=JobHandle("exp_1", number))
    bench.pass_time(60)

    run = bench.run()
    assert (run.status, attempts(bench)) == (RunStatus.FAILED, [1, 2, 3, 4])
    assert run.error is not None and "never started on `ray`" in run.error["message"]


def test_a_job_that_ended_by_itself_before_it_joined_is_not_tried_again(bench: Bench) -> None:
    bench.submit(spec=a_spec(max_attempts=1))
    lose(bench, JobReport(JobState.GONE, "python3.8: not found", EndCause.ENDED))
    bench.pass_time(60)

    assert (bench.run().status, attempts(bench)) == (RunStatus.FAILED, [1])


def test_attempts_of_which_nothing_began_are_not_counted(running: Bench) -> None:
    lose(running)
    running.pass_time(60)
    lose(running, handle=SECOND)  # before it joined
    running.pass_time(4)
    assert attempts(running) == [1, 2, 3]
    for number in (3, 4):
        running.engine.join("exp_1", 0, Join(number, "c" * 32, host="n9"))
        running.report(RunStatus.RUNNING, attempt=number)
        lose(running, handle=JobHandle("exp_1", number))
        running.pass_time(60)

    run = running.run()
    assert (run.status, attempts(running)) == (RunStatus.FAILED, [1, 2, 3, 4])
    assert [one.code for one in run.attempts] == ["NodeLost", "NeverStarted", "NodeLost"]
    assert run.error is not None and "attempt 3 of 3, besides 1" in run.error["message"]


def test_a_supervisor_that_outlived_its_node_hears_of_the_fence_and_the_next_starts_with_its_end(
    running: Bench,
) -> None:
    running.engine.heartbeat("exp_1", 1, cluster_gone=True)
    running.pass_time(1)
    lose(running)
    running.pass_time(2)

    assert running.engine.heartbeat("exp_1", 1).due_attempt == 2
    assert running.ship(log_frame(b"last words")).attempt == 2
    assert running.report(RunStatus.FINALIZING).status is RunStatus.QUEUED
    with pytest.raises(Conflict, match="nothing of attempt 1 may start"):
        running.engine.join("exp_1", 0, Join(1, "a" * 32))
    for _ in range(30):
        running.pass_time(5)
        running.engine.heartbeat("exp_1", 1)
    assert attempts(running) == [1]

    running.report(RunStatus.CANCELED)
    running.pass_time(1)

    assert attempts(running) == [1, 2]
    assert running.ship(log_frame(b"late", 10)).attempt == 2  # an old attempt may ship
    names = {file.name: file.chunks for file in running.store.list_files("exp_1")}
    assert running.artifacts.read_stream(names["attempt_1/user_logs/std_log.txt"][0]) == b"last wordslate"


def test_several_nodes_must_all_have_told_their_end_or_be_silent(bench: Bench) -> None:
    bench.submit(spec=a_spec())
    for rank in (0, 1):
        append_event(
            bench.engine.context.store, "exp_1", {"event": JOINED, "attempt": 1, "rank": rank, "incarnation": "x"}
        )
        bench.engine.context.gangs.add("exp_1", 1, rank, bench.clock.monotonic(), host=f"n{rank}", incarnation="x")
    bench.report(RunStatus.RUNNING)
    bench.report(RunStatus.FAILED, error={"code": "NodeLost", "message": "node 1 is gone"})
    bench.pass_time(30)
    assert attempts(bench) == [1]

    bench.engine.context.gangs.hear("exp_1", 1, 1, bench.clock.monotonic(), {"ended": {"status": "Canceled"}})
    bench.pass_time(2)

    assert attempts(bench) == [1, 2]


def test_no_attempt_follows_beyond_the_number_that_was_allowed(bench: Bench) -> None:
    bench.submit(spec=a_spec(max_attempts=2))
    for number in (1, 2):
        bench.report(RunStatus.RUNNING, attempt=number)
        lose(bench, PREEMPTED, JobHandle("exp_1", number))
        bench.pass_time(45)

    run = bench.run()
    assert run.status is RunStatus.FAILED and run.error is not None and run.error["code"] == "Preempted"
    assert "attempt 2 of 2" in run.error["message"] and "preempted for job 99" in run.error["message"]
    assert attempts(bench) == [1, 2] and bench.engine.is_idle()


def test_without_further_attempts_a_run_whose_node_is_lost_is_told_to_end_and_ends_within_a_minute(
    bench: Bench,
) -> None:
    bench.submit(spec=a_spec(max_attempts=1))
    bench.report(RunStatus.RUNNING)
    lose(bench)
    bench.pass_time(4)
    told = bench.engine.heartbeat("exp_1", 1)
    assert (told.status, told.desired, told.due_attempt) == (RunStatus.RUNNING, "fail", 1)

    bench.pass_time(45)

    run = bench.run()
    assert run.status is RunStatus.FAILED and run.error is not None and run.error["code"] == "NodeLost"
    assert "node n7 does not answer" in run.error["message"]


def test_a_cancel_between_two_attempts_wins_and_waits_for_the_proof(running: Bench) -> None:
    lose(running)
    running.pass_time(5)
    running.engine.cancel("exp_1")
    assert running.run().status is RunStatus.CANCEL_REQUESTED

    running.pass_time(30)
    assert running.run().status is RunStatus.CANCEL_REQUESTED
    running.pass_time(10)

    assert running.run().status is RunStatus.CANCELED and attempts(running) == [1]


@pytest.mark.parametrize(("seconds", "attempt"), [(3, 1), (4, 2)], ids=["in the queue", "not handed over"])
def test_a_cancel_before_the_next_attempt_has_started_ends_the_run_at_once(
    tmp_path: Path, seconds: int, attempt: int
) -> None:
    bench = Bench(tmp_path, local_runs=1)
    bench.submit(spec=RunSpec(script="train.py", max_attempts=2))
    bench.report(RunStatus.RUNNING)
    bench.backend.fault = OSError("no space left")
    bench.backend.states[FIRST] = JobState.GONE
    bench.pass_time(seconds)
    assert (bench.run().attempt, bench.run().is_between_attempts) == (attempt, attempt == 1)

    assert bench.engine.cancel("exp_1").status is RunStatus.CANCELED
    assert bench.engine.is_idle() and bench.engine.context.spool.list_runs() == []


def test_an_attempt_that_was_given_up_and_finished_all_the_same_has_finished(running: Bench) -> None:
    lose(running)
    running.pass_time(5)

    assert running.report(RunStatus.COMPLETED).status is RunStatus.COMPLETED
    running.pass_time(60)
    assert attempts(running) == [1]


def test_a_script_that_fails_is_not_tried_again(running: Bench) -> None:
    running.report(RunStatus.FAILED, error={"code": "UserError", "message": "exit code 1", "details": {}})

    assert running.run().status is RunStatus.FAILED and running.engine.is_idle()


def test_a_program_that_was_killed_is_judged_when_its_engine_has_said_why(running: Bench) -> None:
    killed = {"code": "UserError", "message": "signal 15", "details": {"signal": "SIGTERM"}}
    with pytest.raises(StoreUnavailable, match="cannot end yet"):
        running.report(RunStatus.FAILED, error=killed)
    lose(running, PREEMPTED)

    assert running.report(RunStatus.FAILED, error=killed).due_attempt == 2
    running.pass_time(1)
    assert attempts(running) == [1, 2] and running.run().attempts[0].code == "Preempted"

    saved_first = {"code": "UserError", "message": "exit code 143", "details": {"exit_code": 143}}
    with pytest.raises(StoreUnavailable):
        running.report(RunStatus.FAILED, attempt=2, error=saved_first)
    running.clock.seconds += 9
    assert running.report(RunStatus.FAILED, attempt=2, error=saved_first).status is RunStatus.FAILED


def test_a_target_that_cannot_be_polled_keeps_no_run_from_its_end(
    running: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise OSError("no such machine")

    monkeypatch.setattr(running.cluster, "poll", broken)
    killed = {"code": "UserError", "message": "signal 9", "details": {"signal": "SIGKILL"}}
    with pytest.raises(StoreUnavailable):
        running.report(RunStatus.FAILED, error=killed)
    running.clock.seconds += 9

    assert running.report(RunStatus.FAILED, error=killed).status is RunStatus.FAILED


def test_a_server_that_is_killed_between_two_attempts_takes_the_fence_up_and_begins_the_lease_anew(
    running: Bench,
) -> None:
    lose(running)
    running.pass_time(35)
    running.restart()
    assert running.engine.heartbeat("exp_1", 1).due_attempt == 2

    running.pass_time(38)
    assert attempts(running) == [1]
    running.pass_time(4)
    assert attempts(running) == [1, 2] and running.cluster.ended.count(FIRST) == 2

    running.restart()
    running.pass_time(3)
    assert attempts(running) == [1, 2]


def test_a_run_that_is_lost_on_this_machine_is_started_again_with_what_its_submitter_gave(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    new = bench.new(spec=RunSpec(script="train.py", max_attempts=2))
    bench.engine.submit(new, submitter={"TOKEN": SECRET})
    bench.report(RunStatus.RUNNING)
    bench.restart()
    bench.backend.states[FIRST] = JobState.GONE
    bench.pass_time(6)

    first, second = bench.backend.jobs_of("exp_1")
    assert (first.attempt, second.attempt) == (1, 2) and second.submitter == {"TOKEN": SECRET}
    bench.report(RunStatus.COMPLETED, attempt=2)
    assert bench.engine.context.spool.list_runs() == []


def test_a_run_that_cut_itself_off_from_the_server_is_started_again(running: Bench) -> None:
    running.report(RunStatus.FAILED, error={"code": "NodeLost", "message": "no answer for 30 s"})
    running.pass_time(1)

    assert attempts(running) == [1, 2] and running.run().attempts[0].why == "no answer for 30 s"
