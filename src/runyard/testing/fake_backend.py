"""A compute backend without processes: a test says what became of each job."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from runyard.compute.base import ComputeBackend, JobHandle, JobReport, JobRequest, JobState
from runyard.core.specs import JobSpec


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
