"""What uploads count on: content that the server said is there must stay until the upload has come to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

GRACE_S = 600.0


class Leases:
    """Ids that were asked for or stored lately. Shared between threads.

    An id is held for one to two times `grace_s` after its last use. `gate` is held by who looks ids up to rely on them,
    and by the collector while it removes: so what was said to be there is known to it.
    """

    def __init__(self, *, grace_s: float = GRACE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.gate = threading.RLock()
        self.grace_s = grace_s
        self._clock = clock
        self.began = clock()
        self._turned = self.began
        self._now: set[str] = set()
        self._before: set[str] = set()
        self._since: set[str] = set()  # since the last `watch`

    def hold(self, ids: Iterable[str]) -> None:
        with self.gate:
            self._turn()
            fresh = set(ids)
            self._now |= fresh
            self._since |= fresh

    def watch(self) -> None:
        """Start to collect for `fresh`."""
        with self.gate:
            self._since = set()

    def fresh(self) -> set[str]:
        """Return what was held since `watch`."""
        with self.gate:
            return set(self._since)

    def held(self) -> set[str]:
        with self.gate:
            self._turn()
            return self._now | self._before

    def forget(self) -> None:
        """Hold nothing of what was held so far."""
        with self.gate:
            self._now, self._before = set(), set()

    def is_warm(self) -> bool:
        """Whether we have listened for so long that no upload from before can still count on anything."""
        return self._clock() - self.began >= self.grace_s

    def _turn(self) -> None:
        passed = self._clock() - self._turned
        if passed >= self.grace_s:
            self._before = self._now if passed < 2 * self.grace_s else set()
            self._now = set()
            self._turned = self._clock()
