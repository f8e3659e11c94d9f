"""Frees what clusters hold for attempts that are over: soon, on threads, and again if it fails.

It also holds the threads for calls to clusters that may hang.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from runyard.compute.base import ComputeBackend, JobHandle
from runyard.core.errors import UserError

logger = logging.getLogger(__name__)

Work = Callable[[], None]
THREADS = 4  # for each key
MOST_TRIES = 5
FIRST_WAIT_S = 2.0  # then twice as long each time


class CallThreads:
    """A few threads for each target, for calls to its cluster, so that one that hangs delays no other. Thread-safe.

    A thread lives while there is work for its key. With `threads` 0, `submit` does the work itself.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._changed = threading.Condition()
        self._work: defaultdict[Hashable, deque[Work]] = defaultdict(deque)
        self._busy: Counter[Hashable] = Counter()
        self._is_closed = False

    def submit(self, key: Hashable, work: Work) -> None:
        """Have `work` done soon, after earlier work of the same key."""
        if self._threads == 0:
            return _try(work)
        with self._changed:
            if self._is_closed:
                return
            self._work[key].append(work)
            if self._busy[key] >= self._threads:
                return
            self._busy[key] += 1
        threading.Thread(target=self._run, args=(key,), name=f"engine-{key}", daemon=True).start()

    def close(self, *, wait_s: float = 0.0) -> None:
        """Drop what nobody has begun, and wait a moment for the rest; what hangs is left behind."""
        give_up_at = time.monotonic() + wait_s
        with self._changed:
            self._is_closed = True
            self._work.clear()
            while self._busy and self._changed.wait(max(0.0, give_up_at - time.monotonic())):
                pass

    def _run(self, key: Hashable) -> None:
        while True:
            with self._changed:
                if not self._work[key]:
                    self._leave(key)
                    return
                work = self._work[key].popleft()
            _try(work)

    def _leave(self, key: Hashable) -> None:
        del self._work[key]
        self._busy[key] -= 1
        if not self._busy[key]:
            del self._busy[key]
        self._changed.notify_all()


def _try(work: Work) -> None:
    try:
        work()
    except Exception:
        # The edge of a thread: the work itself says what becomes of a run whose target fails.
        logger.exception("a call to a compute target failed")


@dataclass(frozen=True)
class PendingRelease:
    """One `ComputeBackend.end` that is due. `done` is called when it has succeeded or is given up."""

    handle: JobHandle
    target: str
    find_backend: Callable[[], ComputeBackend]
    done: Callable[[], None]
    due_at: float = 0.0
    tries: int = 0


class ReleaseQueue:
    """Attempts that are over and whose clusters still hold resources for them. Thread-safe.

    What a server does not get to, the next one finds: the spool file stays until the last attempt is released.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[JobHandle, PendingRelease] = {}

    def add(self, one: PendingRelease) -> None:
        """Queue a release; one for the same attempt is replaced."""
        with self._lock:
            self._due[one.handle] = one

    def __len__(self) -> int:
        with self._lock:
            return len(self._due)

    def begin_due(self, threads: CallThreads, clock: Callable[[], float]) -> None:
        """Start the releases that are due. Called by the loop; the calls run on `threads`."""
        now = clock()
        with self._lock:
            due = [one for one in self._due.values() if one.due_at <= now]
            for one in due:
                del self._due[one.handle]
        for one in due:
            threads.submit(("end", one.target), lambda one=one: self._make(one, clock))  # type: ignore[misc]  # bound now

    def _add_again(self, one: PendingRelease) -> None:
        with self._lock:
            self._due.setdefault(one.handle, one)  # it may have been asked for anew, with something to do afterwards

    def _make(self, one: PendingRelease, clock: Callable[[], float]) -> None:
        try:
            one.find_backend().end(one.handle)
        except UserError as error:
            logger.warning("run %s: attempt %d cannot be given back: %s", one.handle.run_id, one.handle.attempt, error)
        except Exception:
            # A cluster is somebody else's: it may be away for a while.
            logger.warning(
                "run %s: attempt %d not given back yet", one.handle.run_id, one.handle.attempt, exc_info=True
            )
            if one.tries + 1 < MOST_TRIES:
                wait_s = FIRST_WAIT_S * 2**one.tries
                return self._add_again(replace(one, tries=one.tries + 1, due_at=clock() + wait_s))
        one.done()
