"""Background threads that cannot die, and waits that grow with failures."""

from __future__ import annotations

import logging
import os
import threading
from typing import Callable, Optional

from runyard.core.errors import RunyardError, is_later

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0


class Backoff:
    """0.1 s, doubling to 5 s, each between half and all of it, so that many supervisors do not come at once."""

    def __init__(self) -> None:
        self._next_s = FIRST_WAIT_S

    def next_s(self) -> float:
        wait_s, self._next_s = self._next_s, min(self._next_s * 2, LONGEST_WAIT_S)
        return wait_s * (0.5 + os.urandom(1)[0] / 512)

    def reset(self) -> None:
        self._next_s = FIRST_WAIT_S


def spread(wait_s: float, jitter: float) -> float:
    """Return `wait_s`, longer or shorter by up to the part `jitter` of it: many runs must not speak at once."""
    return wait_s * (1 + jitter * (int.from_bytes(os.urandom(2), "little") / 32767.5 - 1))


class ShippingLoop:
    """Calls `step` every `every_s` (give or take the part `jitter` of it) and when woken; again while it is True.

    `first_s`: how long it waits before the first call.

    An error waits longer and longer and is logged once per kind: nothing that happens here may end the run.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], Optional[bool]],
        *,
        every_s: float,
        jitter: float = 0.0,
        first_s: float = 0.0,
    ) -> None:
        self._step = step
        self._every_s = every_s
        self._jitter = jitter
        self._first_s = first_s
        self._wake = threading.Event()
        self._stopping = False
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Let the current step end, then return."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        backoff = Backoff()
        self._wake.wait(self._first_s)
        while not self._stopping:
            wait_s = self._try(backoff)
            if wait_s > 0:
                self._wake.wait(wait_s)
                self._wake.clear()

    def _try(self, backoff: Backoff) -> float:
        try:
            more = self._step()
        except Exception as error:
            self._report(error)
            return backoff.next_s()
        backoff.reset()
        self._last_error = ""
        return 0.0 if more else spread(self._every_s, self._jitter)

    def _report(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if text == self._last_error:
            return
        self._last_error = text
        known = isinstance(error, RunyardError) and is_later(error)
        logger.warning("%s: %s", self._thread.name, text, exc_info=None if known else error)
