"""Says that the server's disk is full or soon will be: in a header of every answer to a person's program or page.

Every command, every SDK call and the page hear of it that way, before and while nothing can be stored any more. A
supervisor's requests are looked at as well, since they come while a run fills the disk; it is not told.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from runyard.core.errors import NOTICE_HEADER
from runyard.core.machine.progress import shown_size
from runyard.server.access.permissions import RunPrincipal
from runyard.server.storage.health import LEAST_FREE_BYTES
from runyard.server.storage.room import ServerDisk, look_at

FRESH_S = 1.0
SAMPLE_S = 10.0
RECENT_S = 1800.0  # the need of this long is taken as the need of the time to come
TREND_S = 600.0  # one large upload is no trend
SOON_S = 3600.0
LOW_BYTES, LOW_SHARE = 2 << 30, 20  # with less than both of 2 GiB and a twentieth of the disk it is nearly full
LEAST_NEED_BYTES = 100_000_000  # less in half an hour is no trend
_ROOM = (
    "To make room: `runyard runs delete --now RUN`, `runyard environments prune`, `runyard server collect`. "
    "Cancels and deletes work on a full disk, too."
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class DiskWatch:
    """Used by the event loop and by threads; looks at most once a second.

    `make_room` removes what can be made again. A thread of its own calls it when the disk begins to be short.
    """

    def __init__(
        self,
        folder: Path,
        *,
        look: Callable[[Path], ServerDisk] = look_at,
        clock: Callable[[], float] = time.monotonic,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._make_room = make_room
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[tuple[float, int]] = deque()  # when, and how much was free
        self._looked_at = -FRESH_S
        self._notice = ""

    def notice(self) -> str:
        """Return the kind of notice and its sentences, `disk-full …` or `disk-low …`; "" when there is room."""
        with self._lock:
            now = self._clock()
            if now - self._looked_at >= FRESH_S:
                self._looked_at = now
                before, self._notice = self._notice, self._find(now)
                if self._notice and not before:
                    threading.Thread(target=self._make_room, name="make-room", daemon=True).start()
            return self._notice

    def _find(self, now: float) -> str:
        try:
            disk = self._look(self._folder)
        except OSError:
            return ""
        self._keep(now, disk.free)
        if disk.free < LEAST_FREE_BYTES:
            return f"disk-full The server's disk is full: it stores nothing new. Runs go on and wait for room. {_ROOM}"
        left_s = self._left_s(now, disk.free)
        if disk.free >= min(LOW_BYTES, disk.total // LOW_SHARE) and left_s > SOON_S:
            return ""
        text = f"disk-low The server's disk has only {shown_size(disk.free)} left"
        if left_s <= SOON_S:
            text += f", and is full in about {max(1, round(left_s / 60))} min if it fills as in the last half hour"
        return f"{text}. {_ROOM}"

    def _keep(self, now: float, free: int) -> None:
        if not self._samples or now - self._samples[-1][0] >= SAMPLE_S:
            self._samples.append((now, free))
        while now - self._samples[0][0] > RECENT_S:
            self._samples.popleft()

    def _left_s(self, now: float, free: int) -> float:
        """Return in how many seconds the disk is full, judged by how it filled lately."""
        began, most = max(self._samples, key=lambda sample: sample[1])
        needed, took_s = most - free, max(now - began, TREND_S)
        return free / needed * took_s if needed >= LEAST_NEED_BYTES else float("inf")


def with_notices(app: App, notice: Callable[[], str]) -> App:
    """Return `app` with the notice as a header of its answers, except to supervisors and strangers."""

    async def noticed(scope: Scope, receive: Receive, send: Send) -> None:
        text = notice() if scope["type"] == "http" else ""
        principal = scope.get("state", {}).get("principal")
        if not text or principal is None or isinstance(principal, RunPrincipal):
            await app(scope, receive, send)
            return

        async def told(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                header = (NOTICE_HEADER.encode("ascii"), text.encode("latin-1", "replace"))
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        await app(scope, receive, told)

    return noticed
