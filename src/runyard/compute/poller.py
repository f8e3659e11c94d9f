"""Poll a cluster for the state of jobs in a thread, so that `ComputeBackend.poll` never waits for the cluster."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from runyard.compute.base import JobHandle, JobReport, JobState

logger = logging.getLogger(__name__)

Ask = Callable[[Sequence[JobHandle]], Mapping[JobHandle, JobReport]]

EVERY_S = 2.0
IDLE_S = 60.0  # a job that was not polled for this long is no longer watched
TRUST_S = 30.0  # an older answer counts as UNKNOWN
_WAITING = JobReport(JobState.WAITING)


@dataclass
class _Watched:
    """The last report about one job, and when it was polled."""

    report: JobReport
    at: float  # when the report was valid, on the monotonic clock
    polled_at: float
    is_answered: bool = False


class JobPoller:
    """Calls `ask(handles)` at most every `every_s`, one query for all jobs, while `reports` is called.

    `ask` runs in a thread of ours, may be slow and may raise: then the last reports hold for `trust_s` and turn into
    UNKNOWN with the reason. Thread-safe. A backend submits a job inside `with poller.submitting(handle)`,
    so that an answer from before does not count; `poll` is `reports`, `end` calls `forget`, `close` calls `close`.
    """

    def __init__(
        self, name: str, ask: Ask, *, every_s: float = EVERY_S, idle_s: float = IDLE_S, trust_s: float = TRUST_S
    ) -> None:
        self._name = name
        self._ask = ask
        self._every_s, self._idle_s, self._trust_s = every_s, idle_s, trust_s
        self._changed = threading.Condition()
        self._jobs: dict[JobHandle, _Watched] = {}
        self._thread: threading.Thread | None = None
        self._is_hurried = False
        self._is_closed = False
        self._fault = ""

    @contextmanager
    def submitting(self, handle: JobHandle) -> Iterator[None]:
        """Report the job as WAITING until the answer to a question asked after this block says otherwise."""
        with self._changed:
            self._jobs[handle] = job = _Watched(_WAITING, at=math.inf, polled_at=math.inf)
        try:
            yield
        except BaseException:
            self.forget(handle)
            raise
        with self._changed:
            job.at = job.polled_at = time.monotonic()
            self._wake()

    def reports(self, handles: Sequence[JobHandle]) -> dict[JobHandle, JobReport]:
        """Return the last reports at once; UNKNOWN for a job that was not asked for yet."""
        with self._changed:
            found = {handle: self._report(handle) for handle in handles}
            if handles:
                self._wake()
        return found

    def hurry(self) -> None:
        """Ask now, because the state of a job has just been changed."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def forget(self, handle: JobHandle) -> None:
        """Stop asking for a job. May be repeated."""
        with self._changed:
            self._jobs.pop(handle, None)

    def close(self) -> None:
        """Ask no more. A running `ask` is left to its end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _report(self, handle: JobHandle) -> JobReport:
        now = time.monotonic()
        job = self._jobs.get(handle)
        if job is None:
            self._jobs[handle] = _Watched(JobReport(JobState.UNKNOWN), at=now, polled_at=now)
            self._is_hurried = True
            return self._jobs[handle].report
        job.polled_at = max(job.polled_at, now)
        if now - job.at <= self._trust_s:
            return job.report
        return JobReport(JobState.UNKNOWN, self._fault or f"{self._name} has not answered for {now - job.at:.0f} s")

    def _wake(self) -> None:
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._watch, name=f"runyard-watch-{self._name}", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _watch(self) -> None:
        while handles := self._next():
            began = time.monotonic()
            try:
                answers = self._ask(handles)
            except Exception as error:
                self._note_fault(error)
            else:
                self._keep(handles, answers, began)
            self._pause(began)

    def _next(self) -> list[JobHandle]:
        """Return the jobs to ask for; an empty list ends the thread, and the next poll starts another."""
        with self._changed:
            oldest = time.monotonic() - self._idle_s
            for handle in [handle for handle, job in self._jobs.items() if job.polled_at < oldest]:
                del self._jobs[handle]
            self._is_hurried = False
            if self._is_closed or not self._jobs:
                self._thread = None
                return []
            return list(self._jobs)

    def _keep(self, handles: Sequence[JobHandle], answers: Mapping[JobHandle, JobReport], began: float) -> None:
        with self._changed:
            self._fault = ""
            for handle in handles:
                job = self._jobs.get(handle)
                if job is None or (not job.is_answered and job.at > began):  # submitted meanwhile
                    continue
                job.report = answers.get(handle, JobReport(JobState.UNKNOWN))
                job.at, job.is_answered = began, True

    def _note_fault(self, error: Exception) -> None:
        what = getattr(error, "what", "") or f"{type(error).__name__}: {error}"
        why = getattr(error, "why", "")
        fault = f"{what} {why}".strip()
        with self._changed:
            is_news, self._fault = fault != self._fault, fault
        if is_news:
            logger.warning("%s could not be asked for its jobs: %s", self._name, fault)

    def _pause(self, began: float) -> None:
        with self._changed:
            left = began + self._every_s - time.monotonic()
            self._changed.wait_for(lambda: self._is_hurried or self._is_closed, timeout=max(0.0, left))
