"""A clock for what must not be deleted too early: it never runs ahead of the time that really passed.

The wall clock may jump, and a server does not know how long it was away. So the horizon moves only as the monotonic
clock does. When the wall clock is ahead of it (the server was away, or the clock jumped), the horizon follows once the
server has been up for a whole `confirm_s` with the wall clock ahead all that time; restarts add up. What waits for the
horizon is at worst late.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from runyard.engine.state.clock import Clock
from runyard.store.base import RunStore

_VALUE = "horizon"
_SLACK = timedelta(minutes=1)  # clocks are adjusted
_SAVE_EVERY_S = 60.0


class Horizon:
    """Shared between threads. `observe` may be called as often as one likes; a start takes up what was stored."""

    def __init__(
        self, store: RunStore, clock: Clock, *, confirm_s: float, is_awaited: Callable[[], bool] = lambda: True
    ) -> None:
        """`is_awaited` says whether anything waits for it at a start; if nothing does, it begins at the wall clock."""
        self._store, self._clock, self._confirm_s, self._is_awaited = store, clock, confirm_s, is_awaited
        self._lock = threading.Lock()
        self._at: datetime | None = None
        self._seen_s = self._saved_s = clock.monotonic()
        self._ahead_s = 0.0  # how long the wall clock has been ahead while this server, or one before, was up
        self._was_ahead = False

    def observe(self) -> datetime:
        """Return the horizon now."""
        with self._lock:
            now, passed = self._clock.now(), self._clock.monotonic() - self._seen_s
            self._seen_s += passed
            if self._at is None:
                self._at = self._load(now)
            self._move(now, passed)
            if self._clock.monotonic() - self._saved_s >= _SAVE_EVERY_S:
                self._save()
            return self._at

    def save(self) -> None:
        """Store where it is, so that the next server goes on from there."""
        self.observe()
        with self._lock:
            self._save()

    def _move(self, now: datetime, passed: float) -> None:
        assert self._at is not None
        self._at = min(now, self._at + timedelta(seconds=passed))
        is_ahead = now - self._at > _SLACK
        # The time before the first look at a clock that is ahead does not count.
        self._ahead_s = self._ahead_s + passed if is_ahead and self._was_ahead else self._ahead_s if is_ahead else 0.0
        self._was_ahead = is_ahead
        if self._ahead_s >= self._confirm_s:
            self._at, self._ahead_s, self._was_ahead = now, 0.0, False

    def _load(self, now: datetime) -> datetime:
        if not self._is_awaited():
            return now
        text = self._store.find_value(_VALUE)
        if text is None:
            return datetime.fromtimestamp(0, timezone.utc)
        plain = json.loads(text)
        self._ahead_s = float(plain["ahead_s"])
        stored = datetime.fromisoformat(plain["at"])
        return now if now - stored <= _SLACK else stored

    def _save(self) -> None:
        assert self._at is not None
        self._store.set_value(_VALUE, json.dumps({"at": self._at.isoformat(), "ahead_s": self._ahead_s}))
        self._saved_s = self._clock.monotonic()
