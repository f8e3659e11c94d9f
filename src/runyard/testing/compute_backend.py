"""The conformance suite of `ComputeBackend`, and a fake backend without processes.

Subclass the suite and give it a `bench` fixture. With `FakeBackend` the test decides the state of each job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from runyard.compute.base import ComputeBackend, JobHandle, JobReport, JobRequest, JobState
from runyard.core.errors import SubmitRejected
from runyard.core.specs import DistributionSpec, JobSpec


class ComputeBench(Protocol):
    """A backend and a server that its supervisors can reach."""

    backend: ComputeBackend

    def job(self, script: str, *, distribution: DistributionSpec | None = None) -> JobSpec:
        """Return a new run's job whose snapshot holds `script` as train.py."""
        ...

    def status(self, run_id: str) -> str:
        """Return the status that the supervisor reported last."""
        ...

    def desire(self, run_id: str, desired: str) -> None:
        """Store at the server what it wants of the run."""
        ...


class ComputeBackendSuite:
    def test_a_plan_touches_nothing_and_names_the_job(self, bench: ComputeBench) -> None:
        job = bench.job("print(1)")
        request = bench.backend.plan(job)

        assert (request.run_id, request.attempt, request.node_count) == (job.run_id, job.attempt, 1)
        assert replace(request.job, nodes=job.nodes) == job
        assert [node.rank for node in request.job.nodes] == [0]
        assert request.argv and job.token not in request.argv
        assert not Path(request.run_folder).exists()
        assert bench.backend.plan(job) == request

    def test_a_plan_over_several_nodes_names_each_of_them_once(self, bench: ComputeBench) -> None:
        job = bench.job("print(1)", distribution=DistributionSpec(kind="pytorch", node_count=3))
        request = bench.backend.plan(job)
        nodes = request.job.nodes

        assert (request.node_count, request.job.node_count) == (3, 3)
        assert {node.rank for node in nodes} <= {0, 1, 2}
        assert len({node.address for node in nodes}) == len({node.name for node in nodes}) == len(nodes)
        assert bench.backend.plan(job) == request

    def test_what_the_backend_cannot_give_is_refused_in_words(self, bench: ComputeBench) -> None:
        job = bench.job("print(1)", distribution=DistributionSpec(node_count=1000))

        with pytest.raises(SubmitRejected, match="1000 nodes"):
            bench.backend.plan(job)

    def test_a_job_lives_and_is_gone(self, bench: ComputeBench, tmp_path: Path) -> None:
        stop = tmp_path / "stop"
        job = bench.job(f"import os, time\nwhile not os.path.exists({str(stop)!r}): time.sleep(0.01)\n")
        handle = bench.backend.submit(bench.backend.plan(job))
        _until(lambda: bench.status(job.run_id) == "Running")

        assert handle == JobHandle(job.run_id, job.attempt)
        _until(lambda: state_of(bench, handle) is JobState.ALIVE)  # a thread asks the cluster
        stop.touch()
        _until(lambda: state_of(bench, handle) is JobState.GONE)
        assert bench.status(job.run_id) == "Completed"

    def test_a_job_over_several_nodes_runs_once_on_each_and_ends_once(
        self, bench: ComputeBench, tmp_path: Path
    ) -> None:
        script = f"""\
import os
name = os.environ["NODE_RANK"] + "-" + os.environ["RANK"] + "-" + os.environ["WORLD_SIZE"]
open({str(tmp_path)!r} + "/" + name, "a").write("x")
"""
        job = bench.job(script, distribution=DistributionSpec(kind="pytorch", node_count=2))
        handle = bench.backend.submit(bench.backend.plan(job))
        _until(lambda: bench.status(job.run_id) == "Completed")
        _until(lambda: state_of(bench, handle) is JobState.GONE)

        assert {path.name: path.read_text() for path in tmp_path.glob("?-?-?")} == {"0-0-2": "x", "1-1-2": "x"}

    def test_submitting_again_never_starts_the_code_twice(self, bench: ComputeBench, tmp_path: Path) -> None:
        started = tmp_path / "started"
        job = bench.job(f"open({str(started)!r}, 'a').write('x')\nimport time\ntime.sleep(0.3)\n")
        request = bench.backend.plan(job)
        handles = {bench.backend.submit(request) for _ in range(5)}
        _until(lambda: bench.status(job.run_id) == "Completed")
        _until(lambda: state_of(bench, next(iter(handles))) is JobState.GONE)

        assert len(handles) == 1
        assert started.read_text() == "x"

    def test_a_cancel_reaches_the_program(self, bench: ComputeBench) -> None:
        job = bench.job("import time\ntime.sleep(600)\n")
        handle = bench.backend.submit(bench.backend.plan(job))
        _until(lambda: bench.status(job.run_id) == "Running")
        bench.desire(job.run_id, "cancel")
        bench.backend.cancel(handle)
        bench.backend.cancel(handle)
        _until(lambda: bench.status(job.run_id) == "Canceled")
        _until(lambda: state_of(bench, handle) is JobState.GONE)
        bench.backend.cancel(handle)
        bench.backend.adopt(handle)

    def test_a_job_that_nobody_submitted_is_gone(self, bench: ComputeBench) -> None:
        handle = JobHandle("nobody_1_00000000", 1)

        _until(lambda: state_of(bench, handle) is JobState.GONE)
        bench.backend.cancel(handle)
        bench.backend.adopt(handle)
        assert bench.backend.poll([]) == {}

    def test_jobs_outlive_the_backend(self, bench: ComputeBench, tmp_path: Path) -> None:
        stop = tmp_path / "stop"
        job = bench.job(f"import os, time\nwhile not os.path.exists({str(stop)!r}): time.sleep(0.01)\n")
        bench.backend.submit(bench.backend.plan(job))
        _until(lambda: bench.status(job.run_id) == "Running")
        bench.backend.close()
        bench.backend.close()
        stop.touch()

        _until(lambda: bench.status(job.run_id) == "Completed")


def state_of(bench: ComputeBench, handle: JobHandle) -> JobState:
    return bench.backend.poll([handle])[handle].state


def _until(what: Callable[[], bool], *, timeout_s: float = 90.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.01)


class FakeBackend(ComputeBackend):
    """Keeps what it was asked. `states` (or `reports`) is what `poll` answers; `fault` is raised by submits."""

    def __init__(self) -> None:
        self.submitted: list[JobRequest] = []
        self.canceled: list[JobHandle] = []
        self.adopted: list[JobHandle] = []
        self.ended: list[JobHandle] = []
        self.reports: dict[JobHandle, JobReport] = {}
        self.states: dict[JobHandle, JobState] = {}
        self.fault: Exception | None = None
        self.refusal: Exception | None = None
        self.is_closed = False
        self._lock = threading.Lock()

    def plan(self, job: JobSpec) -> JobRequest:
        if self.refusal is not None:
            raise self.refusal
        return JobRequest(job.run_id, job.attempt, job.spec.target, 1, ["supervisor"], f"/{job.run_id}", job)

    def submit(self, request: JobRequest) -> JobHandle:
        if self.fault is not None:
            raise self.fault
        handle = JobHandle(request.run_id, request.attempt)
        with self._lock:
            self.submitted.append(request)
            self.states.setdefault(handle, JobState.ALIVE)
        return handle

    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        with self._lock:
            found = {handle: JobReport(self.states.get(handle, JobState.GONE)) for handle in handles}
            return {handle: self.reports.get(handle, found[handle]) for handle in handles}

    def adopt(self, handle: JobHandle) -> None:
        with self._lock:
            self.adopted.append(handle)
            self.states[handle] = JobState.ALIVE

    def cancel(self, handle: JobHandle) -> None:
        with self._lock:
            self.canceled.append(handle)

    def end(self, handle: JobHandle) -> None:
        with self._lock:
            self.ended.append(handle)

    def close(self) -> None:
        self.is_closed = True

    def jobs_of(self, run_id: str) -> list[JobSpec]:
        """Return the jobs that were submitted for a run, oldest first."""
        with self._lock:
            return [request.job for request in self.submitted if request.run_id == run_id]
