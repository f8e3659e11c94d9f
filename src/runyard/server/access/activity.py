"""When the private server was last used, and when it may stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Activity:
    """Counts what keeps a server busy. Shared between threads.

    A request in flight, an open page's stream among them, counts as use for as long as it lasts. Unfinished runs are
    the engine's to tell.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open = 0
        self._last = clock()

    def touch(self) -> None:
        self._last = self._clock()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Count as in use until the block ends."""
        with self._lock:
            self._open += 1
        self.touch()
        try:
            yield
        finally:
            self.touch()
            with self._lock:
                self._open -= 1

    @property
    def open_count(self) -> int:
        return self._open

    def idle_s(self) -> float:
        """Return for how long nothing has been asked; 0 while something is open."""
        return 0.0 if self._open else max(0.0, self._clock() - self._last)


def should_leave(activity: Activity, *, idle_stop_s: float, engine_is_idle: Callable[[], bool]) -> bool:
    """Whether the private server has had nothing to do for long enough. An `idle_stop_s` of 0 keeps it for ever."""
    if idle_stop_s <= 0 or activity.idle_s() < idle_stop_s:
        return False
    if engine_is_idle():
        return True
    activity.touch()  # the idle time counts from the end of the last run
    return False
