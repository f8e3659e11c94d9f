"""Ride over a server that is away for a moment: it is being restarted, replaced or its disk is full."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

from runyard.core.errors import SystemFailure, is_later

T = TypeVar("T")

LIMIT_S = 60.0
PAUSE_S = 0.25


class Patience:
    """`ask` repeats a read until the server answers; one that stays away for `limit_s` is an error after all."""

    def __init__(
        self,
        *,
        limit_s: float = LIMIT_S,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit_s = limit_s
        self._pause_s = pause_s
        self._clock = clock
        self._sleep = sleep

    def ask(self, read: Callable[[], T]) -> T:
        """Return what `read` gives. It must be safe to repeat.

        Raises:
            SystemFailure: the server was away for too long, or coming again does not help.
        """
        deadline = self._clock() + self._limit_s
        while True:
            try:
                return read()
            except SystemFailure as error:
                if not is_later(error) or self._clock() >= deadline:
                    raise
            self._sleep(self._pause_s)
