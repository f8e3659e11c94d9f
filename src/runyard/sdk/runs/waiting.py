"""Words on stderr while a run that somebody watches has not started: its status, what it waits for, for how long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Optional, TextIO

from runyard.core.machine.progress import EVERY_S, FIRST_AFTER_S, StatusLine
from runyard.core.statuses import RunStatus

if TYPE_CHECKING:
    from runyard.core import records

BEFORE_RUNNING = frozenset(
    (RunStatus.NOT_STARTED, RunStatus.PROVISIONING, RunStatus.PREPARING, RunStatus.QUEUED, RunStatus.STARTING)
)


class WaitingLine:
    """Used as a block around the watching; `hear` is told the run as the server knows it, `clear` comes before output.

    It says nothing about a run that starts within a second, and nothing more once the run is running.
    """

    def __init__(
        self,
        run_id: str,
        *,
        out: Optional[TextIO] = None,
        first_after_s: float = FIRST_AFTER_S,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_id = run_id
        self._clock = clock
        self._start = clock()
        self._run: Optional[records.Run] = None
        self._line = StatusLine(self.text, out=out, first_after_s=first_after_s, every_s=every_s, clock=clock)

    def __enter__(self) -> WaitingLine:
        self._line.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self._line.end()

    def hear(self, run: records.Run) -> None:
        """Take up what the run is doing; end when it is running or has ended."""
        self._run = run
        if run.status not in BEFORE_RUNNING:
            self._line.end()

    def clear(self) -> None:
        """Remove the drawn line before other output."""
        self._line.clear()

    def text(self) -> str:
        run = self._run
        if run is None:
            return f"runyard: waiting for run {self._run_id}"
        since_s = self._clock() - self._start
        doing = f": {run.waits_for}" if run.waits_for else ""
        return f"runyard: run {self._run_id} is {run.status.value}, {since_s:.0f} s{doing}"
