"""Reports the run's phases to the server in order, and takes the desired state from its answers."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, TypedDict

from runyard.core.errors import RunyardError, is_later
from runyard.core.records import PROGRESS
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.shipping.connection import REFUSALS, Connection, Lease
from runyard.supervisor.shipping.loops import ShippingLoop

if TYPE_CHECKING:
    from runyard.client.decoding import DesiredState
    from runyard.core.formats.documents import EnvironmentFacts, RunError, RunWarning
    from runyard.core.records import Mark

logger = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
HEARTBEAT_JITTER = 0.2
TELL_AFTER_S = 1.0  # a shorter activity is not reported
TELL_EVERY_S = 1.0  # how far a long one is


class ReportedState(TypedDict, total=False):
    """A report to the server: arguments of `RunCalls.state`."""

    status: RunStatus
    error: Optional[RunError]
    warnings: List[RunWarning]
    environment: EnvironmentFacts
    doing: str
    marks: List[Mark]
    logs: Dict[str, int]


class Reporter:
    """The queue of phases, warnings and environments, which the thread `report` posts; no caller waits for the server.

    Any thread may call it; `_lock` guards the queue. `beats`: send heartbeats. `leads`: this supervisor reports the
    run's phases; those of a node that does not lead are not reported. `desired`, `desired_error` and `is_superseded`
    are what the server wants; `notify` is called when they change.
    """

    def __init__(
        self,
        connection: Connection,
        job: JobSpec,
        *,
        notify: Callable[[], None],
        beats: bool = True,
        leads: bool = True,
        lease: Optional[Lease] = None,
        tell_after_s: float = TELL_AFTER_S,
    ) -> None:
        self._lease = lease
        self._tell_after_s = tell_after_s
        self._engine_gone = False
        self._leads = leads
        self._connection = connection
        self._job = job
        self._notify = notify
        self._beats = beats
        self._lock = threading.Lock()
        self._queue: List[ReportedState] = []
        self._warned: List[RunWarning] = []
        self._status = RunStatus.PREPARING
        self._doing = self._told_doing = ""
        self._doing_since = 0.0
        self._heard_at = time.monotonic()
        self._loop = ShippingLoop("report", self._step, every_s=self._pause_s, jitter=HEARTBEAT_JITTER)
        self.desired: Optional[str] = None
        self.desired_error: Optional[RunError] = None
        self.is_superseded = False

    def start(self) -> None:
        """Start the thread. Called once."""
        self._loop.start()

    def stop(self) -> None:
        """End the thread. The final state takes the warnings that are still queued; phases are dropped."""
        self._loop.stop()

    def ask_now(self) -> None:
        """Have the thread ask the server for the desired state at once. Returns without waiting."""
        self._heard_at = float("-inf")
        self._loop.wake()

    def tell_engine_gone(self) -> None:
        """Tell the server, now and with every heartbeat, that the cluster's process on this node is gone."""
        self._engine_gone = True
        self.ask_now()

    def ask(self) -> None:
        """Send a heartbeat now, in the calling thread, and take the desired state. Raises what the server answers."""
        calls = self._connection.client.runs
        desired = calls.heartbeat(self._job.run_id, self._job.attempt, engine_gone=self._engine_gone)
        self.hear(desired.desired, desired.desired_error, desired.attempt)

    def phase(self, status: RunStatus) -> None:
        """Queue a change of the run's phase."""
        if not self._leads:
            return
        self._status = status
        self._doing = ""
        self._enqueue({"status": status})

    def note(self, doing: str) -> None:
        """Show on the run what it is doing, if that takes more than a second; an empty text removes it.

        What follows `PROGRESS` in the text is how far it is, and may change at any pace.
        """
        if doing.partition(PROGRESS)[0] != self._doing.partition(PROGRESS)[0]:
            self._doing_since = time.monotonic()
        self._doing = doing
        if not doing and self._told_doing:
            self._told_doing = ""
            self._enqueue({"status": self._status})

    def add_environment(self, environment: EnvironmentFacts) -> None:
        """Queue the description of the run's environment."""
        self._enqueue({"status": self._status, "environment": environment})

    def warn(self, source: str, message: str) -> None:
        """Show a warning on the run; each text only once. Returns without waiting."""
        warning: RunWarning = {"source": source, "message": message}
        with self._lock:
            if warning in self._warned:
                return
            self._warned.append(warning)
        logger.warning("%s: %s", source, message)
        self._enqueue({"status": self._status, "warnings": [warning]})

    def take_unreported(self) -> List[RunWarning]:
        """Return the warnings that are still queued, for the final state."""
        with self._lock:
            return [warning for body in self._queue for warning in body.get("warnings", ())]

    def find_unreported_environment(self) -> Optional[EnvironmentFacts]:
        """Return the newest description of the environment that is still queued, for the final state."""
        with self._lock:
            queued = [body["environment"] for body in self._queue if body.get("environment")]
        return queued[-1] if queued else None

    def hear(self, desired: Optional[str], desired_error: Optional[RunError], attempt: int) -> None:
        """Take the desired state from an answer of the server, and renew the lease. Any thread may call this."""
        self._heard_at = time.monotonic()
        if self._lease is not None:
            self._lease.renew(self._connection.asked_boot_ns())
        superseded = attempt > self._job.attempt and not self._job.external_writer
        known = desired in (None, self.desired) and (desired_error is None or self.desired_error is not None)
        if known and superseded == self.is_superseded:
            return
        self.is_superseded = self.is_superseded or superseded
        self.desired = desired or self.desired
        self.desired_error = desired_error or self.desired_error
        self._notify()

    def post(self, run_id: str, body: ReportedState) -> None:
        """Post a state now, in the calling thread. Raises what the server answers."""
        desired: DesiredState = self._connection.client.runs.state(run_id, self._job.attempt, **body)
        if run_id == self._job.run_id:
            self.hear(desired.desired, desired.desired_error, desired.attempt)

    def _enqueue(self, body: ReportedState) -> None:
        with self._lock:
            self._queue.append(body)
        self._loop.wake()

    def _step(self) -> bool:
        with self._lock:
            body = self._queue[0] if self._queue else None
        if body is None:
            self._beat()
            return False
        try:
            self._connection.call(lambda: self.post(self._job.run_id, body))
        except RunyardError as error:
            if is_later(error) or isinstance(error, REFUSALS):
                raise
            # The run has already gone further or ended: the next answer says so.
            logger.info("the server did not take %s: %s", body["status"], error)
        with self._lock:
            self._queue.remove(body)
            return bool(self._queue)

    def _pause_s(self) -> float:
        """Return how long to wait for the next look: somebody may be watching a run that is being prepared."""
        is_watched = self._doing or self._status is RunStatus.PREPARING
        return TELL_EVERY_S if self._leads and is_watched else HEARTBEAT_S

    def _beat(self) -> None:
        doing, lasts_s = self._doing, time.monotonic() - self._doing_since
        if self._leads and doing and doing != self._told_doing and lasts_s >= self._tell_after_s:
            body: ReportedState = {"status": self._status, "doing": doing}
            self._connection.call(lambda: self.post(self._job.run_id, body))
            self._told_doing = doing
            return
        if (self._beats or self._engine_gone) and time.monotonic() - self._heard_at >= HEARTBEAT_S / 2:
            self._connection.call(self.ask)
