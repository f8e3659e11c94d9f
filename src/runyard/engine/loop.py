"""The background thread that starts waiting runs and watches started ones.

When a busy server has nothing left to do, its free memory goes back to the machine.
"""

from __future__ import annotations

import gc
import logging
import threading

from runyard.engine.context import EngineContext
from runyard.engine.runs.liveness import poll_jobs
from runyard.engine.runs.schedule import start_waiting
from runyard.engine.runs.wait_reasons import note_shortages
from runyard.engine.state.allocation import Stage
from runyard.engine.sweeps.sweeps import advance_sweeps

TICK_S = 1.0
REST_S = 3.0
PAUSED_AFTER_S = 10.0  # a tick this late means that we were stopped, not that everybody else was silent


def trim_heap() -> None:
    """Return free pages of the heap: after a large ingest glibc would keep some 30 MB for ever."""
    # Only a server that was busy comes here; an idle one should not hold ctypes.
    import ctypes

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
    if trim is not None:
        trim(0)


logger = logging.getLogger(__name__)


class Loop:
    """The background thread that starts waiting runs and watches started ones, once a second while there is any.

    It sleeps while nothing can happen without an event; `events.wake` wakes it.
    """

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_tick: float | None = None
        self._was_busy = False

    def start(self) -> None:
        """Start the thread. Call it once."""
        self._thread = threading.Thread(target=self._run, name="engine-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when the thread has ended; a second call does nothing."""
        self._stopping.set()
        self._context.events.wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None

    def tick(self) -> None:
        """Do one round: sweeps, waiting runs, shortages, polls, releases.

        Called by the thread, and by tests that drive the engine themselves. After a pause of this process all leases
        begin anew, so that no run is lost for our own silence.
        """
        now = self._context.clock.monotonic()
        if self._last_tick is not None and now - self._last_tick > PAUSED_AFTER_S:
            logger.warning("the server was paused for %.0f s; all leases begin anew", now - self._last_tick)
            self._context.board.renew(now)
            self._context.gangs.renew(now)
        self._last_tick = now
        advance_sweeps(self._context)
        start_waiting(self._context)
        note_shortages(self._context)
        poll_jobs(self._context)
        self._context.compute.releases.begin_due(self._context.compute.threads, self._context.clock.monotonic)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.tick()
            except Exception:
                # The edge of a thread: the store may be full or locked now and well in a second.
                logger.exception("a round of the engine failed")
            self._sleep()
            self._context.events.wake.clear()

    def _sleep(self) -> None:
        if self._has_work():
            self._was_busy = True
            self._context.events.wake.wait(TICK_S)
            return
        self._last_tick = None
        if self._was_busy and not self._context.events.wake.wait(REST_S):
            self._was_busy = False
            trim_heap()
        self._context.events.wake.wait()

    def _has_work(self) -> bool:
        """Whether anything can happen without an event: a job to poll, or one to try again."""
        if self._context.sweeps or len(self._context.compute.releases):
            return True
        return any(job.stage is not Stage.WAITING or job.retry_at > 0 for job in self._context.board.jobs())
