"""Threads for calls to engines that may hang: a few for each target, so that one that hangs holds up nobody else."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable

logger = logging.getLogger(__name__)

Work = Callable[[], None]
THREADS = 4  # for each key


class Pool:
    """Shared between threads. A thread lives as long as there is work for its key. `threads` 0: work is done at once,
    by who asks for it.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._changed = threading.Condition()
        self._work: defaultdict[Hashable, deque[Work]] = defaultdict(deque)
        self._busy: Counter[Hashable] = Counter()
        self._is_closed = False

    def do(self, key: Hashable, work: Work) -> None:
        """Have `work` done soon, after what was asked for earlier with the same key."""
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
