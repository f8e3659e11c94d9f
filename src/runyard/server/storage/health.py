"""Whether the server can store anything now: its database answers, its disk takes writes and has room.

Health can be asked without a token, so an answer is cached for a second. The checks run in threads of their own, one
per part: a database that hangs holds up one thread and no request.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.core.errors import StoreUnavailable
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)

OK, AWAY, FULL, READ_ONLY = "ok", "away", "full", "not writable"
FRESH_S = 1.0
PATIENCE_S = 2.0  # for a part that neither works nor fails
LEAST_FREE_BYTES = 1 << 20

Check = Callable[[], str]


class Health:
    """Used by the event loop and by threads."""

    def __init__(self, checks: Mapping[str, Check], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._checks = dict(checks)
        self._clock = clock
        self._lock = threading.Lock()
        self._began_at = -FRESH_S
        self._found: dict[str, str] = {}
        self._pending: dict[str, float] = {}  # since when each is looked at

    async def look(self) -> dict[str, str]:
        """Return what is known of each part, at most a second old."""
        self._begin()
        give_up_at = self._clock() + PATIENCE_S
        while self._is_pending() and self._clock() < give_up_at:
            await asyncio.sleep(0.005)
        return self._report()

    def look_now(self) -> dict[str, str]:
        """As `look`, for a thread."""
        self._begin()
        give_up_at = self._clock() + PATIENCE_S
        while self._is_pending() and self._clock() < give_up_at:
            time.sleep(0.005)
        return self._report()

    def _begin(self) -> None:
        with self._lock:
            now = self._clock()
            if now - self._began_at < FRESH_S:
                return
            self._began_at = now
            for part in self._checks.keys() - self._pending.keys():
                self._pending[part] = now
                threading.Thread(target=self._check, args=(part,), name=f"health-{part}", daemon=True).start()

    def _check(self, part: str) -> None:
        try:
            found = self._checks[part]()
        except Exception as error:
            logger.debug("%s: %s", part, error)
            found = AWAY
        with self._lock:
            self._found[part] = found
            del self._pending[part]

    def _is_pending(self) -> bool:
        """Whether a check is still running that is not slow yet; callers do not wait for a slow one a second time."""
        with self._lock:
            return any(self._clock() - since < PATIENCE_S for since in self._pending.values())

    def _report(self) -> dict[str, str]:
        with self._lock:
            return {part: AWAY if part in self._pending else self._found[part] for part in sorted(self._checks)}


def health_of(store: RunStore, home: Path) -> Health:
    def database() -> str:
        store.find_value("server_id")
        return OK if store.find_fault() is None else AWAY

    return Health({"database": database, "disk": lambda: check_disk(home)})


def check_disk(home: Path) -> str:
    """Return whether a file of the server can be written there."""
    probe = home / "server" / f"health.{os.getpid()}"
    try:
        free = os.statvfs(home)
        if free.f_bavail * free.f_frsize < LEAST_FREE_BYTES:
            return FULL
        fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, b"ok\n")
        finally:
            os.close(fd)
            os.unlink(probe)
    except OSError as error:
        return FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else READ_ONLY
    return OK


def unhealthy(parts: Mapping[str, str]) -> StoreUnavailable | None:
    """Return the error that names the parts that do not work; None: all do."""
    broken = {part: state for part, state in parts.items() if state != OK}
    if not broken:
        return None
    shown = ", ".join(f"{part}: {state}" for part, state in broken.items())
    details: dict[str, object] = {"parts": dict(parts)}
    return StoreUnavailable(
        "The server is up, but cannot store anything now.",
        why=f"{shown}.",
        hint="Its log says more. Runs go on meanwhile and send everything later.",
        details=details,
    )
