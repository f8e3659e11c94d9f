"""What engines hold for attempts that are over is given back: soon, in threads, and again when it fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from runyard.compute.base import ComputeBackend, JobHandle
from runyard.core.errors import UserError
from runyard.engine.state.pool import Pool

logger = logging.getLogger(__name__)

MOST_TRIES = 5
FIRST_WAIT_S = 2.0  # then twice as long each time


@dataclass(frozen=True)
class Return:
    """One `ComputeBackend.end` that is due. `done` is called when it was made, or given up."""

    handle: JobHandle
    target: str
    find_backend: Callable[[], ComputeBackend]
    done: Callable[[], None]
    due_at: float = 0.0
    tries: int = 0


class Returns:
    """Shared between threads. Those that a server did not get to are found by the next one: the run's spool file
    stays until its last attempt was given back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[JobHandle, Return] = {}

    def add(self, one: Return) -> None:
        with self._lock:
            self._due[one.handle] = one

    def __len__(self) -> int:
        with self._lock:
            return len(self._due)

    def begin_due(self, pool: Pool, clock: Callable[[], float]) -> None:
        """Have those made that are due."""
        now = clock()
        with self._lock:
            due = [one for one in self._due.values() if one.due_at <= now]
            for one in due:
                del self._due[one.handle]
        for one in due:
            pool.do(("end", one.target), lambda one=one: self._make(one, clock))  # type: ignore[misc]  # bound now

    def _add_again(self, one: Return) -> None:
        with self._lock:
            self._due.setdefault(one.handle, one)  # it may have been asked for anew, with something to do afterwards

    def _make(self, one: Return, clock: Callable[[], float]) -> None:
        try:
            one.find_backend().end(one.handle)
        except UserError as error:
            logger.warning("run %s: attempt %d cannot be given back: %s", one.handle.run_id, one.handle.attempt, error)
        except Exception:
            # An engine is somebody else's: it may be away for a while.
            logger.warning(
                "run %s: attempt %d not given back yet", one.handle.run_id, one.handle.attempt, exc_info=True
            )
            if one.tries + 1 < MOST_TRIES:
                wait_s = FIRST_WAIT_S * 2**one.tries
                return self._add_again(replace(one, tries=one.tries + 1, due_at=clock() + wait_s))
        one.done()
