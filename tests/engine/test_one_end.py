"""R30 in short: whatever happens to a run, in whatever order, it has one end and never leaves it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runyard.compute.base import JobHandle, JobState
from runyard.core.errors import Conflict
from runyard.core.statuses import TERMINAL, RunStatus
from tests.engine.bench import Bench

RUNS = ["exp_1", "exp_2", "exp_3"]
PHASES = [RunStatus.PREPARING, RunStatus.RUNNING, RunStatus.FINALIZING, *sorted(TERMINAL)]
runs = st.sampled_from(RUNS)


class OneEnd(RuleBasedStateMachine):
    """Two places, three runs, a server that may be killed at any moment, supervisors that may vanish."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.bench = Bench(self.folder, local_runs=2)
        self.ends: dict[str, RunStatus] = {}
        self.wishes: set[str] = set()

    @rule(run_id=runs)
    def submit(self, run_id: str) -> None:
        self.bench.submit(run_id)

    @rule(run_id=runs, status=st.sampled_from(PHASES))
    def report(self, run_id: str, status: RunStatus) -> None:
        if self.bench.backend.jobs_of(run_id):
            self.bench.report(status, run_id)

    @rule(run_id=runs)
    def heartbeat(self, run_id: str) -> None:
        if self.bench.backend.jobs_of(run_id):
            self.bench.engine.heartbeat(run_id, 1)

    @rule(run_id=runs)
    def report_of_an_old_attempt(self, run_id: str) -> None:
        if self.bench.backend.jobs_of(run_id):
            try:
                self.bench.report(RunStatus.COMPLETED, run_id, attempt=7)
            except Conflict:
                return
            raise AssertionError("an attempt that never was has ended the run")

    @rule(run_id=runs, how=st.sampled_from(["cancel", "fail"]))
    def wish(self, run_id: str, how: str) -> None:
        if self.bench.store.find_run(run_id) is None:
            return
        if how == "cancel":
            self.bench.engine.cancel(run_id)
        else:
            self.bench.engine.fail(run_id, {"code": "UserError", "message": "stop"})
        self.wishes.add(run_id)

    @rule(seconds=st.sampled_from([1, 5, 40]))
    def pass_time(self, seconds: int) -> None:
        self.bench.pass_time(seconds)

    @rule(run_id=runs, state=st.sampled_from(list(JobState)))
    def a_supervisor_is_found(self, run_id: str, state: JobState) -> None:
        handle = JobHandle(run_id, 1)
        if handle in self.bench.backend.states and self.bench.backend.states[handle] is not JobState.GONE:
            self.bench.backend.states[handle] = state

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @precondition(lambda self: self.bench.backend.fault is None)
    @rule()
    def disk_full(self) -> None:
        self.bench.backend.fault = OSError(28, "No space left on device")

    @precondition(lambda self: self.bench.backend.fault is not None)
    @rule()
    def disk_freed(self) -> None:
        self.bench.backend.fault = None

    @invariant()
    def an_end_is_final(self) -> None:
        for run_id in RUNS:
            run = self.bench.store.find_run(run_id)
            if run is None:
                continue
            ends = [phase.status for phase in run.timeline if phase.status.is_terminal]
            assert len(ends) == (1 if run.status.is_terminal else 0), run.timeline
            if run.status.is_terminal:
                assert self.ends.setdefault(run_id, run.status) is run.status

    @invariant()
    def code_starts_at_most_once_an_attempt_and_within_the_limit(self) -> None:
        for run_id in RUNS:
            assert len(self.bench.backend.jobs_of(run_id)) <= 1
            run = self.bench.store.find_run(run_id)
            assert run is None or run.attempt <= 1
        handed = {request.run_id for request in self.bench.backend.submitted} - self.ends.keys()
        assert len(handed) <= 2

    @invariant()
    def a_wish_is_kept(self) -> None:
        for run_id in self.wishes:
            run = self.bench.run(run_id)
            assert run.status.is_terminal or run.desired is not None

    @invariant()
    def the_board_knows_exactly_the_unfinished_runs(self) -> None:
        unfinished = {run.id for run in self.bench.store.list_unfinished()}
        assert {job.run_id for job in self.bench.engine.context.board.jobs()} == unfinished

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


TestOneEnd = pytest.mark.long(OneEnd.TestCase)
TestOneEnd.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)
