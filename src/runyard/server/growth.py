"""Who waits for a log to grow: requests sleep on the event loop, not in a thread each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Growth:
    """`notify` is called from any thread, `watch` on an event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    def notify(self, run_id: str) -> None:
        """Wake everybody who watches this run: a log of it grew, or its status moved."""
        with self._lock:
            waiters = list(self._waiters.get(run_id, ()))
        for loop, event in waiters:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                continue  # that loop was closed, and its requests with it

    @contextmanager
    def watch(self, run_id: str) -> Iterator[asyncio.Event]:
        """Give an event that is set at every change from now on; look at the log after entering, then wait."""
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiters.setdefault(run_id, set()).add(waiter)
        try:
            yield waiter[1]
        finally:
            with self._lock:
                left = self._waiters[run_id]
                left.discard(waiter)
                if not left:
                    del self._waiters[run_id]

    async def wait_until(
        self, run_id: str, look: Callable[[], Awaitable[T]], is_enough: Callable[[T], bool], *, wait_s: float
    ) -> T:
        """Look again at every change until it is enough or the time is over; return what was seen last."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        with self.watch(run_id) as changed:
            while True:
                changed.clear()
                found = await look()
                left = until - loop.time()
                if is_enough(found) or left <= 0:
                    return found
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except (asyncio.TimeoutError, TimeoutError):
                    return found
