"""R30: lease, fence, cancel and retry. Whatever happens, one attempt lives at a time, and a run has one end.

The world outside of the engine is played here: supervisors that live, are cut off, end themselves by their lease or die
unseen, and engines whose word about a node may be wrong.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.core.attempts import LEASE_S
from runyard.core.errors import Conflict, StoreUnavailable
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.join import Join
from runyard.engine.runs.retries import MOST_IN_VAIN, never_started_count
from runyard.supervisor.shipping.connection import ASK_S, GRACE_S
from runyard.testing.compute_backend import FakeBackend
from tests.engine.bench import Bench

LIMITS = {"far_1": 3, "far_2": 2, "here": 2}
runs = st.sampled_from(list(LIMITS))
far = st.sampled_from(["far_1", "far_2"])
HEARTBEAT_S = 5.0
ENDS_S = LEASE_S + ASK_S + GRACE_S + 3.0  # after its last answered question, at the latest
LOSSES = [EndCause.NODE_LOST, EndCause.PREEMPTED]


class Killed(BaseException):
    """The server was killed here: no handler of ours may see it."""


@dataclass
class Life:
    """One supervisor with its processes."""

    handle: JobHandle
    answered: float
    is_cut_off: bool = False


class Attempts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.bench = Bench(self.folder, cluster="far")
        self.lives: dict[str, list[Life]] = {run_id: [] for run_id in LIMITS}
        self.wishes: dict[str, int] = {}  # the attempt at which a run was canceled
        self.started: set[JobHandle] = set()
        self.ends: dict[str, RunStatus] = {}
        self.is_full = False  # jobs wait in the queue of the engine
        self.fuse = -1
        self._put_fuse()

    @initialize()
    def begin(self) -> None:
        for run_id in LIMITS:
            self.submit(run_id)
        self.pass_time(1)

    def submit(self, run_id: str) -> None:
        target = "local" if run_id == "here" else "far"
        spec = RunSpec(script="train.py", target=target, max_attempts=LIMITS[run_id])
        self.play(lambda: self.bench.submit(run_id, spec=spec))

    @rule(waits=st.booleans())
    def the_cluster_is_full(self, waits: bool) -> None:
        self.is_full = waits

    def a_node_starts(self, run_id: str) -> None:
        for job in self.backend_of(run_id).jobs_of(run_id):
            self._start(JobHandle(run_id, job.attempt))

    @rule(run_id=runs, status=st.sampled_from([RunStatus.RUNNING] * 6 + [RunStatus.COMPLETED, RunStatus.FAILED]))
    def a_supervisor_reports(self, run_id: str, status: RunStatus) -> None:
        for life in self.lives[run_id][:]:
            if not life.is_cut_off:
                self._report(life, status)

    @rule(run_id=runs)
    def all_processes_die(self, run_id: str) -> None:
        for life in self.lives[run_id]:
            report = JobReport(JobState.GONE) if run_id == "here" else JobReport(JobState.UNKNOWN)
            self.backend_of(run_id).reports[life.handle] = report
        self.lives[run_id].clear()

    @rule(run_id=far, cut=st.booleans())
    def the_network_changes(self, run_id: str, cut: bool) -> None:
        for life in self.lives[run_id]:
            life.is_cut_off = cut

    @rule(run_id=far, cause=st.sampled_from(LOSSES), cut=st.booleans(), seconds=st.integers(0, 50))
    def the_engine_loses_a_node(self, run_id: str, cause: EndCause, cut: bool, seconds: int) -> None:
        self.the_engine_says(run_id, JobState.GONE, cause)
        self.the_network_changes(run_id, cut)
        self.pass_time(seconds)

    @rule(run_id=far, state=st.sampled_from(list(JobState)), cause=st.sampled_from(LOSSES))
    def the_engine_says(self, run_id: str, state: JobState, cause: EndCause) -> None:
        """Also of a node that lives: an engine that lost sight of it does not know."""
        for job in self.bench.cluster.jobs_of(run_id)[-1:]:
            told = JobReport(state, "as it seems", cause if state is JobState.GONE else EndCause.UNKNOWN)
            self.bench.cluster.reports[JobHandle(run_id, job.attempt)] = told

    @rule(run_id=runs, really=st.sampled_from([False] * 5 + [True]))
    def cancel(self, run_id: str, really: bool) -> None:
        if really and self.bench.store.find_run(run_id) is not None:
            self.play(lambda: self.bench.engine.cancel(run_id))
            run = self.bench.run(run_id)
            if run.desired is not None:
                self.wishes.setdefault(run_id, run.attempt)

    @rule(seconds=st.sampled_from([1, 7, 31, 45]))
    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.bench.clock.seconds += 1
            self._live_on()
            for run_id in LIMITS if not self.is_full else ():
                self.a_node_starts(run_id)
            self.play(self.bench.engine.loop.tick)
            self.check()

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @rule(writes=st.integers(0, 3))
    def the_server_will_be_killed(self, writes: int) -> None:
        self.fuse = writes

    @rule(is_full=st.booleans())
    def the_disks_change(self, is_full: bool) -> None:
        self.bench.backend.fault = self.bench.cluster.fault = OSError(28, "No space left") if is_full else None

    @invariant()
    def check(self) -> None:
        for run_id, limit in LIMITS.items():
            assert len(self.lives[run_id]) <= 1, f"{run_id}: two attempts live"
            run = self.bench.store.find_run(run_id)
            if run is None:
                continue
            most = limit + never_started_count(run)
            assert run.attempt <= self.wishes.get(run_id, most), f"{run_id}: started after its cancel, or too often"
            assert never_started_count(run) <= (0 if run_id == "here" else MOST_IN_VAIN), (
                f"{run_id}: never started, too often"
            )
            submitted = {job.attempt for job in self.backend_of(run_id).jobs_of(run_id)}
            assert {one.number for one in run.attempts} <= submitted, f"{run_id}: given up before it was handed over"
            assert run.status is not RunStatus.CANCELED or run.desired == "cancel", f"{run_id}: nobody wanted that"
            ends = [phase.status for phase in run.timeline if phase.status.is_terminal]
            assert len(ends) == int(run.status.is_terminal), run.timeline
            if run.status.is_terminal:
                assert self.ends.setdefault(run_id, run.status) is run.status
                assert not self.lives[run_id], f"{run_id}: {run.status} while it lives"

    def teardown(self) -> None:
        """Nothing is lost: in a world that is well again, every run comes to its end."""
        self.fuse, self.is_full = -1, False
        self.the_disks_change(False)
        for run_id in LIMITS:
            self.the_network_changes(run_id, False)
        for _ in range(12):
            for run_id in LIMITS:
                for job in self.backend_of(run_id).jobs_of(run_id):
                    self._tell_truth(JobHandle(run_id, job.attempt))
                self.a_node_starts(run_id)
                self.a_supervisor_reports(run_id, RunStatus.COMPLETED)
            self.pass_time(10)
        unfinished = [run.id for run in self.bench.store.list_unfinished()]
        shutil.rmtree(self.folder, ignore_errors=True)
        assert unfinished == []

    def play(self, act: Callable[[], object]) -> None:
        """Do something with the server; when it is killed on the way, the next one takes over."""
        try:
            act()
        except Killed:
            self.bench.restart()

    def backend_of(self, run_id: str) -> FakeBackend:
        return self.bench.backend if run_id == "here" else self.bench.cluster

    def _tell_truth(self, handle: JobHandle) -> None:
        lives = any(life.handle == handle for life in self.lives[handle.run_id])
        waits = handle not in self.started
        state = JobState.ALIVE if lives else JobState.WAITING if waits else JobState.GONE
        self.backend_of(handle.run_id).reports[handle] = JobReport(state, "", EndCause.NODE_LOST)

    def _start(self, handle: JobHandle) -> None:
        if handle in self.started:
            return
        if handle.run_id != "here":
            try:
                self.bench.engine.join(handle.run_id, 0, Join(handle.attempt, "a" * 32))
            except Conflict:
                return
            except Killed:
                return self.bench.restart()
        self.started.add(handle)
        self.lives[handle.run_id].append(Life(handle, self.bench.clock.seconds))

    def _live_on(self) -> None:
        for lives in self.lives.values():
            for life in lives[:]:
                silent_s = self.bench.clock.seconds - life.answered
                if silent_s >= ENDS_S:
                    lives.remove(life)
                elif not life.is_cut_off and (silent_s >= HEARTBEAT_S):
                    self._beat(life)

    def _beat(self, life: Life) -> None:
        try:
            run = self.bench.engine.heartbeat(life.handle.run_id, life.handle.attempt)
        except Conflict:
            return
        except Killed:
            return self.bench.restart()
        life.answered = self.bench.clock.seconds
        if run.due_attempt > life.handle.attempt or run.desired == "cancel":
            self._report(life, RunStatus.CANCELED)
        elif run.desired == "fail":
            self._report(life, RunStatus.FAILED)

    def _report(self, life: Life, status: RunStatus) -> None:
        """An end is reported when nothing lives any more, as often as it takes."""
        lives = self.lives[life.handle.run_id]
        if status.is_terminal and life in lives:
            lives.remove(life)
        error = {"code": "UserError", "message": "exit code 1"} if status is RunStatus.FAILED else None
        for _ in range(3):
            try:
                self.bench.report(status, life.handle.run_id, attempt=life.handle.attempt, error=error)
                return
            except (Conflict, StoreUnavailable):
                return
            except Killed:
                self.bench.restart()

    def _put_fuse(self) -> None:
        """Have the server die before one of its next writes."""
        store = self.bench.store
        for name in ("start_attempt", "fence_attempt", "set_status", "set_desired", "append_events", "create_run"):
            setattr(store, name, self._fused(getattr(store, name)))

    def _fused(self, write: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **more: object) -> object:
            self.fuse -= 1
            if self.fuse == -1:
                raise Killed
            self.fuse = max(self.fuse, -2)
            return write(*args, **more)

        return call


TestAttempts = pytest.mark.long(Attempts.TestCase)
TestAttempts.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
