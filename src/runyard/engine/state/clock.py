"""Time as the engine sees it: leases by the monotonic clock, shown times by the wall clock."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """The time; tests pass one that they advance."""

    def monotonic(self) -> float:
        """Return seconds that never go back, for leases."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC, to show and to store."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Return the machine's monotonic clock in seconds."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the machine's wall-clock time in UTC."""
        return datetime.now(timezone.utc)
