"""The jobs in hand, in memory: who waits, who runs, and when each was last heard. Made anew from the store at start."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from enum import Enum


class Stage(Enum):
    WAITING = "waiting"  # not handed to its target yet
    HANDING = "handing"
    HANDED = "handed"


@dataclass(frozen=True)
class Job:
    run_id: str
    target: str
    launched: bool = True  # false: a run that we only watch; it takes no place on its target
    stage: Stage = Stage.WAITING
    attempt: int = 0
    heard: float = 0.0  # monotonic time of the last word from its supervisor
    silent: bool = False  # shown as NotResponding
    gone: int = 0  # polls in a row that found nothing of it
    adopted_at: float = 0.0
    retry_at: float = 0.0
    faults: int = 0
    fault: str = ""  # why it could not be handed over, in words


class Board:
    """Shared between threads; every method is short and never waits for anything but its own lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def add(self, job: Job) -> Job:
        """Put a job on the board unless it is there."""
        with self._lock:
            return self._jobs.setdefault(job.run_id, job)

    def find(self, run_id: str) -> Job | None:
        with self._lock:
            return self._jobs.get(run_id)

    def update(self, run_id: str, **changes: object) -> Job | None:
        with self._lock:
            job = self._jobs.get(run_id)
            if job is None:
                return None
            changed = self._jobs[run_id] = replace(job, **changes)  # type: ignore[arg-type]  # fields of Job by name
            return changed

    def hear(self, run_id: str, attempt: int, now: float) -> Job | None:
        """Note a word from a job's supervisor and return the job as it was before."""
        with self._lock:
            job = self._jobs.get(run_id)
            if job is None or job.attempt != attempt:
                return None
            self._jobs[run_id] = replace(job, heard=now, silent=False, gone=0)
            return job

    def renew(self, now: float) -> None:
        """Start every lease anew, as after a pause of the server itself."""
        with self._lock:
            self._jobs = {key: replace(job, heard=now) for key, job in self._jobs.items()}

    def remove(self, run_id: str) -> None:
        with self._lock:
            self._jobs.pop(run_id, None)

    def take(self, run_id: str, *, limit: int) -> Job | None:
        """Reserve a place for this job when one is free and nobody is in front of it."""
        with self._lock:
            job = self._jobs.get(run_id)
            if job is None or job.stage is not Stage.WAITING or not self._has_place(job, limit):
                return None
            taken = self._jobs[run_id] = replace(job, stage=Stage.HANDING)
            return taken

    def take_next(self, *, limit: int, now: float) -> Job | None:
        """Reserve a place for the first waiting job that can start now."""
        with self._lock:
            full = set()
            for job in self._jobs.values():
                if job.stage is not Stage.WAITING or job.retry_at > now or (job.target in full and job.launched):
                    continue
                if self._has_place(job, limit):
                    taken = self._jobs[job.run_id] = replace(job, stage=Stage.HANDING)
                    return taken
                full.add(job.target)
            return None

    def in_front_of(self, run_id: str) -> list[Job]:
        """Return the launched jobs that wait longer than this one, oldest first."""
        found = []
        for job in self.jobs():
            if job.run_id == run_id:
                break
            if job.stage is Stage.WAITING and job.launched:
                found.append(job)
        return found

    def running(self, target: str) -> list[Job]:
        return [job for job in self.jobs() if job.launched and job.target == target and job.stage is not Stage.WAITING]

    def jobs(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def __len__(self) -> int:
        with self._lock:
            return len(self._jobs)

    def _has_place(self, job: Job, limit: int) -> bool:
        """Whether the target has a free place and no job in front of this one wants it."""
        if limit <= 0 or not job.launched or job.target != "local":
            return True
        taken, is_behind = 0, False
        for other in self._jobs.values():
            if other.run_id == job.run_id:
                is_behind = True
            elif not other.launched or other.target != job.target:
                continue
            elif other.stage is not Stage.WAITING:
                taken += 1
            elif not is_behind and not other.fault:
                return False
        return taken < limit
