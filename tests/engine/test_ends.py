"""Reports, cancel and fail: one end, decided once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from runyard.compute.base import JobHandle
from runyard.core.errors import Conflict, InvalidArgument, MissingContent
from runyard.core.records import Mark
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from tests.engine.bench import WRITER, Bench, header, journal_frame, log_frame, name, number


def test_phases_are_stamped_in_order(bench: Bench) -> None:
    bench.submit()
    for status in (RunStatus.PREPARING, RunStatus.STARTING, RunStatus.RUNNING, RunStatus.FINALIZING):
        assert bench.report(status).status is status
    run = bench.report(RunStatus.COMPLETED)

    words = "NotStarted Queued Preparing Starting Running Finalizing Completed"
    assert [phase.status.value for phase in run.timeline] == words.split()
    assert run.started_at is not None and run.ended_at is not None


def test_a_repeated_or_earlier_phase_changes_nothing(bench: Bench) -> None:
    bench.submit()
    bench.report(RunStatus.RUNNING)

    assert bench.report(RunStatus.PREPARING).status is RunStatus.RUNNING
    assert bench.report(RunStatus.RUNNING).status is RunStatus.RUNNING


def test_the_first_end_stays(bench: Bench) -> None:
    bench.submit()
    error = {"code": "UserError", "message": "User program failed with ValueError: no", "details": {"rank": 0}}
    bench.report(RunStatus.FAILED, error=error)

    assert bench.report(RunStatus.COMPLETED).status is RunStatus.FAILED
    assert bench.report(RunStatus.RUNNING).status is RunStatus.FAILED
    assert bench.run().error == error


def test_facts_are_kept_with_text_that_can_be_stored(bench: Bench) -> None:
    bench.submit()
    bench.report(
        RunStatus.RUNNING,
        warnings=[{"source": "logs", "message": "bad \ud800 \x00"}],
        environment={"interpreter": "/usr/bin/python3", "packages": {"numpy": "2"}},
    )

    run = bench.run()
    assert run.warnings == [{"source": "logs", "message": "bad \ufffd \ufffd"}]
    assert run.environment == {"interpreter": "/usr/bin/python3", "packages": {"numpy": "2"}}


def test_a_report_of_another_attempt_is_refused(bench: Bench) -> None:
    bench.submit()

    with pytest.raises(Conflict, match="attempt 1"):
        bench.report(RunStatus.COMPLETED, attempt=2)


@pytest.mark.parametrize("status", [RunStatus.NOT_STARTED, RunStatus.NOT_RESPONDING, RunStatus.CANCEL_REQUESTED])
def test_what_only_the_server_decides_cannot_be_reported(bench: Bench, status: RunStatus) -> None:
    bench.submit()

    with pytest.raises(InvalidArgument):
        bench.report(status)


def test_the_end_is_taken_only_when_all_journals_and_logs_are_stored(bench: Bench) -> None:
    bench.submit()
    data = header() + name(1, "loss") + number(1, 0.5)
    bench.ship(journal_frame(data[:-32]), log_frame(b"hello "))
    wanted: dict[str, Any] = {"marks": [Mark(WRITER, 0, len(data))], "logs": {"user_logs/std_log.txt": 11}}

    with pytest.raises(MissingContent) as caught:
        bench.report(RunStatus.COMPLETED, **wanted)
    assert caught.value.details == {
        "marks": [{"writer": WRITER, "segment": 0, "offset": len(data) - 32}],
        "logs": {"user_logs/std_log.txt": 6},
    }
    assert bench.run().status is RunStatus.QUEUED

    bench.ship(journal_frame(data[-32:], len(data) - 32), log_frame(b"world", 6))
    assert bench.report(RunStatus.COMPLETED, **wanted).status is RunStatus.COMPLETED
    [log] = bench.store.list_files("exp_1")
    assert (log.name, log.size, log.complete, log.kind) == ("user_logs/std_log.txt", 11, True, "stream")


def test_cancel_is_stored_shown_and_delivered(bench: Bench) -> None:
    bench.submit()
    bench.report(RunStatus.RUNNING)

    for _ in range(3):
        run = bench.engine.cancel("exp_1")
        assert run.status is RunStatus.CANCEL_REQUESTED and run.desired == "cancel"
    assert set(bench.backend.canceled) == {JobHandle("exp_1", 1)}
    assert bench.engine.heartbeat("exp_1", 1).desired == "cancel"
    assert bench.report(RunStatus.RUNNING).desired == "cancel"
    assert bench.report(RunStatus.CANCELED).status is RunStatus.CANCELED
    assert bench.engine.cancel("exp_1").status is RunStatus.CANCELED


def test_cancel_survives_a_restart_of_the_server(bench: Bench) -> None:
    bench.submit()
    bench.engine.cancel("exp_1")
    bench.restart()

    assert bench.engine.heartbeat("exp_1", 1).desired == "cancel"


def test_cancel_of_a_waiting_run_ends_it_at_once(bench: Bench, tmp_path: Any) -> None:
    narrow = Bench(tmp_path / "narrow", local_runs=1)
    narrow.submit("exp_1")
    narrow.submit("exp_2")

    assert narrow.engine.cancel("exp_2").status is RunStatus.CANCELED
    narrow.report(RunStatus.COMPLETED, "exp_1")
    narrow.engine.loop.tick()
    assert narrow.backend.jobs_of("exp_2") == [] and narrow.engine.is_idle()


def test_cancel_of_a_run_that_could_not_be_handed_over_ends_it_at_once(bench: Bench) -> None:
    bench.backend.fault = OSError("disk full")
    bench.submit()

    assert bench.engine.cancel("exp_1").status is RunStatus.CANCELED
    bench.backend.fault = None
    bench.pass_time(60)
    assert bench.backend.submitted == []


def test_fail_carries_its_error_to_the_supervisor_and_ends_a_waiting_run(bench: Bench, tmp_path: Any) -> None:
    bench.submit()
    bench.report(RunStatus.RUNNING)
    run = bench.engine.fail("exp_1", {"code": "UserError", "message": "enough"})
    assert run.desired == "fail" and run.status is RunStatus.RUNNING
    assert bench.engine.heartbeat("exp_1", 1).desired_error == {"code": "UserError", "message": "enough", "details": {}}

    narrow = Bench(tmp_path / "narrow", local_runs=1)
    narrow.submit("exp_1")
    narrow.submit("exp_2")
    ended = narrow.engine.fail("exp_2", {"message": "never mind"})
    assert ended.status is RunStatus.FAILED
    assert ended.error == {"code": "UserError", "message": "never mind", "details": {}}


def test_a_run_without_a_supervisor_ends_when_it_is_canceled(bench: Bench) -> None:
    made = bench.engine.register_external_run(bench.new(type=None, spec=RunSpec()))
    assert made.run.status is RunStatus.RUNNING and made.run.attempt == 0

    assert bench.engine.cancel("exp_1").status is RunStatus.CANCELED


def test_cancel_reaches_everything_below_the_run(bench: Bench) -> None:
    bench.submit()
    bench.report(RunStatus.RUNNING)
    bench.submit("step", parent_id="exp_1")
    for run_id, parent in (("child", "exp_1"), ("grandchild", "child"), ("finished", "exp_1")):
        bench.engine.register_external_run(bench.new(run_id, type=None, spec=RunSpec(), parent_id=parent))
    bench.store.set_status("finished", RunStatus.COMPLETED)

    bench.engine.cancel("exp_1")

    statuses = {name: bench.run(name).status.value for name in ("child", "grandchild", "finished")}
    assert statuses == {"child": "Canceled", "grandchild": "Canceled", "finished": "Completed"}
    assert {bench.run(name).desired for name in ("exp_1", "step")} == {"cancel"}


def test_cancel_against_finish_has_one_end(bench: Bench) -> None:
    for at in range(100):
        run_id = f"exp_{at}"
        bench.submit(run_id)
        bench.report(RunStatus.RUNNING, run_id)
        together(
            lambda run_id=run_id: bench.engine.cancel(run_id),  # type: ignore[misc]  # bound now
            lambda run_id=run_id: bench.report(RunStatus.COMPLETED, run_id),  # type: ignore[misc]
        )

        ends = [phase.status for phase in bench.run(run_id).timeline if phase.status.is_terminal]
        assert ends == [RunStatus.COMPLETED] == [bench.run(run_id).status]
    assert bench.engine.is_idle()


def together(*calls: Callable[[], object]) -> None:
    barrier = threading.Barrier(len(calls))

    def work(call: Callable[[], object]) -> None:
        barrier.wait()
        call()

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
