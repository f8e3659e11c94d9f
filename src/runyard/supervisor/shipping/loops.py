"""Threads that no error ends, and waits that grow with failures."""

from __future__ import annotations

import logging
import os
import threading
from typing import Callable, Optional, Union

from runyard.core.errors import RunyardError, is_later

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0


class Backoff:
    """Waits of 0.1 s, doubling to 5 s, each shortened at random by up to half: supervisors must not retry in step."""

    def __init__(self) -> None:
        self._next_s = FIRST_WAIT_S

    def next_s(self) -> float:
        """Return the seconds of the next wait."""
        wait_s, self._next_s = self._next_s, min(self._next_s * 2, LONGEST_WAIT_S)
        return wait_s * (0.5 + os.urandom(1)[0] / 512)

    def reset(self) -> None:
        """Begin with the shortest wait again, after a success."""
        self._next_s = FIRST_WAIT_S


def spread(wait_s: float, jitter: float) -> float:
    """Return `wait_s`, changed at random by up to the fraction `jitter`: many runs must not send in step."""
    return wait_s * (1 + jitter * (int.from_bytes(os.urandom(2), "little") / 32767.5 - 1))


class ShippingLoop:
    """A thread that calls `step` every `every_s`, and when woken; at once again while `step` returns True.

    `every_s` varies by the fraction `jitter`; `first_s` is the wait before the first call. After an error it waits
    longer and longer, and logs each error once: nothing in a loop may end the run.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], Optional[bool]],
        *,
        every_s: Union[float, Callable[[], float]],
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
        """Start the thread. Called once."""
        self._thread.start()

    def wake(self) -> None:
        """Have `step` called now. Any thread may call this."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after its current step, and wait for that. May be repeated."""
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
        every_s = self._every_s() if callable(self._every_s) else self._every_s
        return 0.0 if more else spread(every_s, self._jitter)

    def _report(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if text == self._last_error:
            return
        self._last_error = text
        known = isinstance(error, RunyardError) and is_later(error)
        logger.warning("%s: %s", self._thread.name, text, exc_info=None if known else error)
