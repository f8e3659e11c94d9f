"""The thread that asks engines for their jobs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.compute.poller import JobPoller
from runyard.core.errors import SystemFailure
from tests.waiting import wait_for

ONE, TWO = JobHandle("exp_1_0000abcd", 1), JobHandle("exp_2_0000abcd", 1)
ALIVE = JobReport(JobState.ALIVE)
GONE = JobReport(JobState.GONE, "its node is down", EndCause.NODE_LOST)


class Engine:
    """Answers as the test says; each question is in `asked`, and waits for `may_answer`."""

    def __init__(self) -> None:
        self.jobs: dict[JobHandle, JobReport] = {}
        self.fault: Exception | None = None
        self.asked: queue.Queue[Sequence[JobHandle]] = queue.Queue()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def ask(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        answers = dict(self.jobs)
        self.asked.put(handles)
        assert self.may_answer.wait(30)
        if self.fault is not None:
            raise self.fault
        return answers


@pytest.fixture
def engine() -> Engine:
    return Engine()


Opening = Callable[..., JobPoller]


@pytest.fixture
def opened(engine: Engine) -> Iterator[Opening]:
    watches: list[JobPoller] = []

    def go(**options: float) -> JobPoller:
        watches.append(JobPoller("mars", engine.ask, **{"every_s": 0.01, **options}))
        return watches[-1]

    yield go
    engine.may_answer.set()
    for watch in watches:
        watch.close()
    wait_for(lambda: not watchers())


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "runyard-watch-mars"]


def see(watch: JobPoller, handle: JobHandle, state: JobState) -> JobReport:
    wait_for(lambda: watch.reports([handle])[handle].state is state)
    return watch.reports([handle])[handle]


def test_a_job_is_unknown_until_the_engine_was_asked_and_all_are_asked_for_at_once(
    engine: Engine, opened: Opening
) -> None:
    engine.jobs = {ONE: ALIVE, TWO: GONE}
    watch = opened(every_s=600)

    assert watch.reports([]) == {} and not watchers()
    assert watch.reports([ONE, TWO]) == {ONE: JobReport(JobState.UNKNOWN), TWO: JobReport(JobState.UNKNOWN)}
    assert see(watch, ONE, JobState.ALIVE) == ALIVE
    assert watch.reports([TWO]) == {TWO: GONE}
    assert engine.asked.get_nowait() == [ONE, TWO] and engine.asked.empty()


def test_polls_do_not_wait_for_a_slow_engine_and_do_not_ask_it_more_often(engine: Engine, opened: Opening) -> None:
    engine.may_answer.clear()
    watch = opened()
    watch.reports([ONE])
    engine.asked.get(timeout=30)

    assert {watch.reports([ONE])[ONE].state for _ in range(1000)} == {JobState.UNKNOWN}
    assert engine.asked.empty() and len(watchers()) == 1


def test_a_submitted_job_waits_and_an_answer_from_before_does_not_count(engine: Engine, opened: Opening) -> None:
    engine.jobs = {ONE: ALIVE, TWO: GONE}
    engine.may_answer.clear()
    watch = opened()
    watch.reports([ONE, TWO])
    engine.asked.get(timeout=30)
    with watch.submitting(TWO):
        engine.may_answer.set()
        see(watch, ONE, JobState.ALIVE)
        assert engine.asked.get(timeout=30) == engine.asked.get(timeout=30) == [ONE, TWO]
        assert watch.reports([TWO])[TWO].state is JobState.WAITING
        engine.jobs[TWO] = ALIVE

    assert watch.reports([TWO])[TWO].state in (JobState.WAITING, JobState.ALIVE)
    see(watch, TWO, JobState.ALIVE)


def test_a_refused_submit_leaves_nothing_behind(engine: Engine, opened: Opening) -> None:
    watch = opened()
    with pytest.raises(SystemFailure), watch.submitting(ONE):
        raise SystemFailure("no")

    assert watch.reports([ONE])[ONE].state is JobState.UNKNOWN


def test_reports_outlive_a_silent_engine_for_a_while_and_then_say_why_nothing_is_known(
    engine: Engine, opened: Opening
) -> None:
    engine.jobs = {ONE: ALIVE}
    patient, strict = opened(trust_s=600), opened(trust_s=0.05)
    see(patient, ONE, JobState.ALIVE)
    see(strict, ONE, JobState.ALIVE)
    engine.fault = SystemFailure("squeue does not answer.", why="exit code 1.")

    wait_for(lambda: "exit code 1" in strict.reports([ONE])[ONE].why)
    assert strict.reports([ONE])[ONE] == JobReport(JobState.UNKNOWN, "squeue does not answer. exit code 1.")
    assert patient.reports([ONE])[ONE] == ALIVE
    engine.fault = None
    see(strict, ONE, JobState.ALIVE)


def test_nobody_is_asked_when_nobody_polls_and_a_later_poll_asks_again(engine: Engine, opened: Opening) -> None:
    engine.jobs = {ONE: ALIVE}
    watch = opened(idle_s=0.05)
    see(watch, ONE, JobState.ALIVE)
    wait_for(lambda: not watchers())
    while not engine.asked.empty():
        engine.asked.get_nowait()

    def is_asked() -> bool:
        watch.reports([ONE])  # again and again: a thread that starts later than `idle_s` leaves without a question
        return not engine.asked.empty()

    wait_for(is_asked)
    assert engine.asked.get_nowait() == [ONE]


def test_hurry_asks_before_its_time_and_forgotten_jobs_are_not_asked_for(engine: Engine, opened: Opening) -> None:
    engine.jobs = {ONE: ALIVE}
    watch = opened(every_s=600)
    see(watch, ONE, JobState.ALIVE)
    engine.asked.get(timeout=30)
    engine.jobs[ONE] = GONE
    watch.hurry()

    assert engine.asked.get(timeout=30) == [ONE]
    see(watch, ONE, JobState.GONE)
    watch.forget(ONE)
    watch.hurry()
    wait_for(lambda: not watchers())
    assert engine.asked.empty()


def test_nothing_is_asked_after_close(engine: Engine, opened: Opening) -> None:
    watch = opened()
    watch.close()
    watch.close()

    assert watch.reports([ONE])[ONE].state is JobState.UNKNOWN
    assert not watchers() and engine.asked.empty()
