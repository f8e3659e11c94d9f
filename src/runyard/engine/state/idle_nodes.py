"""Which nodes of a pool are there without a run: those that a run left not long ago. Forgotten by a restart."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from runyard.engine.state.job import Job
from runyard.engine.state.targets import Key


class IdleNodes:
    """Shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[Key, dict[int, datetime]] = {}

    def note_release(self, job: Job, now: datetime) -> None:
        """Remember that a run has left its nodes."""
        if not job.launched or not job.slots:
            return
        with self._lock:
            self._left.setdefault((job.workspace, job.target), {}).update(dict.fromkeys(job.slots, now))

    def still_there(self, key: Key, *, idle_seconds: int, now: datetime) -> set[int]:
        """Return the nodes that were left less than `idle_seconds` ago."""
        since = now - timedelta(seconds=idle_seconds)
        with self._lock:
            return {slot for slot, left in self._left.get(key, {}).items() if left > since}

    def last_release(self, key: Key) -> datetime | None:
        """Return when a run left a node last."""
        with self._lock:
            return max(self._left.get(key, {}).values(), default=None)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._left.pop(key, None)
