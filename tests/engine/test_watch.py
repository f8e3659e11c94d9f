"""Silence is shown as silence and heals; a run is lost only with proof."""

from __future__ import annotations

import pytest

from runyard.compute.base import JobHandle, JobState
from runyard.core.errors import Conflict
from runyard.core.statuses import RunStatus
from tests.engine.bench import Bench

JOB = JobHandle("exp_1", 1)


@pytest.fixture
def running(bench: Bench) -> Bench:
    bench.submit()
    bench.report(RunStatus.RUNNING)
    return bench


def test_a_silent_supervisor_is_shown_after_thirty_seconds_and_heals_with_its_next_word(running: Bench) -> None:
    running.pass_time(29)
    assert running.run().status is RunStatus.RUNNING

    running.pass_time(2)
    assert running.run().status is RunStatus.NOT_RESPONDING
    assert running.run().error is None and not running.engine.is_idle()

    healed = running.engine.heartbeat("exp_1", 1)
    assert healed.status is RunStatus.RUNNING
    running.pass_time(25)
    assert running.run().status is RunStatus.RUNNING


def test_heartbeats_keep_a_run_running(running: Bench) -> None:
    for _ in range(20):
        running.pass_time(5)
        running.engine.heartbeat("exp_1", 1)

    assert running.run().status is RunStatus.RUNNING
    assert RunStatus.NOT_RESPONDING not in [phase.status for phase in running.run().timeline]


def test_a_report_heals_too_and_moves_on(running: Bench) -> None:
    running.pass_time(31)

    assert running.report(RunStatus.FINALIZING).status is RunStatus.FINALIZING


def test_a_silent_run_whose_cancel_was_asked_heals_to_the_cancel(running: Bench) -> None:
    running.pass_time(31)
    running.engine.cancel("exp_1")
    running.pass_time(31)

    assert running.engine.heartbeat("exp_1", 1).status is RunStatus.CANCEL_REQUESTED


def test_silence_outlives_a_restart_and_heals_after_it(running: Bench) -> None:
    running.pass_time(31)
    running.restart()

    assert running.engine.heartbeat("exp_1", 1).status is RunStatus.RUNNING


def test_leases_begin_anew_at_a_server_start(running: Bench) -> None:
    running.pass_time(25)
    running.restart()
    running.pass_time(25)

    assert running.run().status is RunStatus.RUNNING


def test_a_server_that_was_itself_stopped_blames_nobody(running: Bench) -> None:
    running.pass_time(1)
    running.clock.seconds += 600
    running.pass_time(20)

    assert running.run().status is RunStatus.RUNNING


def test_a_job_of_which_nothing_lives_is_lost(running: Bench) -> None:
    running.backend.states[JOB] = JobState.GONE
    running.pass_time(4)

    run = running.run()
    assert run.status is RunStatus.FAILED and run.error is not None and run.error["code"] == "NodeLost"
    assert "gone without an end" in run.error["message"] and running.engine.is_idle()


def test_a_job_that_vanished_before_its_first_word_never_started(bench: Bench) -> None:
    bench.submit()
    bench.backend.states[JOB] = JobState.GONE
    bench.pass_time(4)

    run = bench.run()
    assert run.error is not None and run.error["code"] == "NodeLost" and "never started" in run.error["message"]


def test_one_look_that_finds_nothing_is_no_proof(running: Bench) -> None:
    running.backend.states[JOB] = JobState.GONE
    running.pass_time(2)
    running.backend.states[JOB] = JobState.ALIVE
    running.engine.heartbeat("exp_1", 1)
    running.backend.states[JOB] = JobState.GONE
    running.pass_time(2)

    assert running.run().status is RunStatus.RUNNING


def test_a_canceled_run_of_which_nothing_lives_is_canceled(running: Bench) -> None:
    running.engine.cancel("exp_1")
    running.backend.states[JOB] = JobState.GONE
    running.pass_time(4)

    assert running.run().status is RunStatus.CANCELED


def test_an_orphaned_job_is_adopted_within_five_seconds(running: Bench) -> None:
    running.backend.states[JOB] = JobState.ORPHANED
    running.pass_time(4)

    assert running.backend.adopted == [JOB]
    assert running.run().status is RunStatus.RUNNING


def test_an_unknown_state_ends_nothing(running: Bench) -> None:
    running.backend.states[JOB] = JobState.UNKNOWN
    running.pass_time(600)

    assert running.run().status is RunStatus.NOT_RESPONDING


def test_a_job_that_waits_at_its_target_is_not_silent(bench: Bench) -> None:
    bench.submit()
    bench.backend.states[JOB] = JobState.WAITING
    bench.pass_time(120)

    assert bench.run().status is RunStatus.QUEUED


def test_a_heartbeat_of_another_attempt_is_refused(running: Bench) -> None:
    with pytest.raises(Conflict, match="attempt 1"):
        running.engine.heartbeat("exp_1", 2)


def test_a_target_that_cannot_be_polled_or_adopted_ends_nothing_and_hides_nobody(
    running: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.submit("exp_2")
    running.report(RunStatus.RUNNING, "exp_2")
    running.backend.states[JOB] = JobState.ORPHANED
    running.backend.states[JobHandle("exp_2", 1)] = JobState.GONE

    def broken(*args: object) -> None:
        raise OSError("no such machine")

    with monkeypatch.context() as patch:
        patch.setattr(running.backend, "poll", broken)
        running.pass_time(5)
    assert running.run("exp_2").status is RunStatus.RUNNING

    monkeypatch.setattr(running.backend, "adopt", broken)
    running.pass_time(3)
    assert running.run("exp_2").status is RunStatus.FAILED and running.run("exp_1").status is RunStatus.RUNNING
