"""All unfinished runs, in memory: which wait, which run, and when each was last heard. Rebuilt at the start."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from runyard.engine.state.allocation import Allocator, Capacity, QueueEntry, Shortage, Stage, lowest_free
from runyard.engine.state.targets import Key


class Board:
    """All unfinished runs, in the order in which they came: the queue, and what each started run holds.

    Thread-safe; every method holds the board's lock for a moment and waits for nothing else.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._jobs: dict[str, QueueEntry] = {}

    def add(self, job: QueueEntry) -> QueueEntry:
        """Add an entry unless the run has one. A started run keeps its slots if they are free, or gets others."""
        with self._lock:
            if job.stage is not Stage.WAITING and job.launched:
                job = job if self._are_free(job) else replace(job, slots=self._free_slots(job))
            return self._jobs.setdefault(job.run_id, job)

    def find(self, run_id: str) -> QueueEntry | None:
        """Return the run's entry; None if it is not on the board."""
        with self._lock:
            return self._jobs.get(run_id)

    def update(self, run_id: str, **changes: object) -> QueueEntry | None:
        """Change fields of the run's entry and return it; None if it is not on the board."""
        with self._lock:
            job = self._jobs.get(run_id)
            if job is None:
                return None
            changed = self._jobs[run_id] = replace(job, **changes)  # type: ignore[arg-type]  # fields of Job by name
            return changed

    def hear(self, run_id: str, attempt: int, now: float, *, proves_life: bool = True) -> QueueEntry | None:
        """Note a message from the attempt's supervisor. Return the entry as it was before.

        `proves_life`: earlier polls that found the job gone were wrong.
        """
        with self._lock:
            job = self._jobs.get(run_id)
            if job is None or job.attempt != attempt:
                return None
            gone_polls = 0 if proves_life else job.gone_polls
            self._jobs[run_id] = replace(job, last_heard_at=now, has_reported=True, silent=False, gone_polls=gone_polls)
            return job

    def renew(self, now: float) -> None:
        """Start every lease anew, as after a pause of the server itself."""
        with self._lock:
            self._jobs = {key: replace(job, last_heard_at=now) for key, job in self._jobs.items()}

    def remove(self, run_id: str) -> QueueEntry | None:
        """Take a job off the board; return it as it was."""
        with self._lock:
            return self._jobs.pop(run_id, None)

    def take(self, run_id: str, *, now: float) -> QueueEntry | None:
        """Reserve what this job needs when there is room and nobody is in front of it."""
        with self._lock:
            return self._start(next((job for job in self._startable(now) if job.run_id == run_id), None))

    def take_next(self, *, now: float) -> QueueEntry | None:
        """Reserve what the first waiting job needs that can start now."""
        with self._lock:
            return self._start(next(self._startable(now), None))

    def preview(self, job: QueueEntry, *, now: float) -> QueueEntry | None:
        """Return a job that is not on the board as it would start now; None when it would wait."""
        with self._lock:
            allocator = self._allocator()
            for _ in self._place_waiting(allocator, now):
                pass
            return allocator.look(job)[1]

    def shortage_of(self, run_id: str, *, now: float) -> Shortage:
        """Return what a waiting job has too little of at the moment."""
        with self._lock:
            allocator = self._allocator()
            for job in self._jobs.values():
                if job.run_id == run_id:
                    return allocator.look(job)[0]
                if job.stage is Stage.WAITING and job.retry_at <= now:
                    allocator.place(job)
        return Shortage.NOTHING

    def list_shortages(self, *, now: float, most: int) -> list[tuple[QueueEntry, Shortage]]:
        """Return what the first waiting jobs have too little of."""
        found: list[tuple[QueueEntry, Shortage]] = []
        with self._lock:
            allocator = self._allocator()
            waiting = (job for job in self._jobs.values() if job.stage is Stage.WAITING and job.launched)
            for job in islice(waiting, most):
                found.append((job, allocator.look(job)[0]))
                if job.retry_at <= now:
                    allocator.place(job)
        return found

    def in_front_of(self, job: QueueEntry, *, wants_gpus: bool = False) -> list[QueueEntry]:
        """Return the launched jobs that wait longer for the same target (or for GPUs), oldest first."""
        found = []
        for other in self.jobs():
            if other.run_id == job.run_id:
                break
            competes = self._key(other) == self._key(job) or (wants_gpus and other.gpus > 0)
            if other.stage is Stage.WAITING and other.launched and competes:
                found.append(other)
        return found

    def on_target(self, key: Key) -> list[QueueEntry]:
        """Return the launched jobs of a target, waiting ones too, oldest first."""
        return [job for job in self.jobs() if job.launched and self._key(job) == key]

    def jobs(self) -> list[QueueEntry]:
        """Return all entries, oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def __len__(self) -> int:
        with self._lock:
            return len(self._jobs)

    def _startable(self, now: float) -> Iterator[QueueEntry]:
        """Yield the waiting jobs that can start now, oldest first, each as it would start."""
        return self._place_waiting(self._allocator(), now)

    def _place_waiting(self, allocator: Allocator, now: float) -> Iterator[QueueEntry]:
        for job in self._jobs.values():
            if job.stage is Stage.WAITING and job.retry_at <= now:
                placed = allocator.place(job)
                if placed is not None:
                    yield placed

    def _start(self, placed: QueueEntry | None) -> QueueEntry | None:
        if placed is not None:
            self._jobs[placed.run_id] = placed
        return placed

    def _allocator(self) -> Allocator:
        return Allocator(self._capacity, (job for job in self._jobs.values() if job.stage is not Stage.WAITING))

    def _are_free(self, job: QueueEntry) -> bool:
        """Whether the job says which slots it has, and no other has them."""
        held = {slot for other in self._jobs.values() if self._key(other) == self._key(job) for slot in other.slots}
        return bool(job.slots) and not held & set(job.slots)

    def _free_slots(self, job: QueueEntry) -> tuple[int, ...]:
        target = self._capacity.targets.find(job.workspace, job.target)
        if target is None:
            return ()
        held = (other for other in self._jobs.values() if self._key(other) == target.key)
        return lowest_free((slot for other in held for slot in other.slots), target.slots_of(job.nodes))

    def _key(self, job: QueueEntry) -> Key:
        target = self._capacity.targets.find(job.workspace, job.target)
        return target.key if target is not None else (job.workspace, job.target)
