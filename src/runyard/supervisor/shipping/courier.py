"""Ships everything from the run folder to the server, in the order in which a run may be called finished."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Callable, Optional

from runyard.core.config.settings import Settings
from runyard.core.errors import Conflict, MissingContent, RunyardError
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.connection import REFUSALS, Aside, Connection, Lease
from runyard.supervisor.shipping.loops import Backoff
from runyard.supervisor.shipping.reporter import Reporter

if TYPE_CHECKING:
    from runyard.core.formats.run_files import FinalState
    from runyard.supervisor.shipping.reporter import ReportedState
    from runyard.supervisor.shipping.shipper import ShippingLoops

logger = logging.getLogger(__name__)

START_SOON_S = 0.05
SHORT_MESSAGE = 2000  # characters


class Courier:
    """The supervisor's access to connection, lease, reporter and shipping loops.

    `start` begins to report and ship; `deliver` sends what is left and then the end. The main thread calls all methods;
    `start` also runs in a timer's thread. `_lock` guards the start, `_loading` the making of `cargo`.

    A guest (the watcher of an external writer) sends records only: no logs and no heartbeats. It starts
    no server as long as it has nothing to send.
    """

    def __init__(
        self,
        folder: RunFolder,
        job: JobSpec,
        settings: Settings,
        *,
        notify: Callable[[], None],
        aside: Aside,
    ) -> None:
        self._folder = folder
        self._job = job
        self.is_guest = job.external_writer != 0
        self.connection = Connection(job, settings, aside=aside, needs_server=self._needs_server)
        self.lease = Lease(folder, job)
        leads = job.node_rank == 0
        beats = leads and not self.is_guest
        self.reporter = Reporter(self.connection, job, notify=notify, beats=beats, leads=leads, lease=self.lease)
        self._lock, self._loading = threading.Lock(), threading.RLock()
        self._is_started = False
        self._loaded: Optional[ShippingLoops] = None

    @property
    def cargo(self) -> ShippingLoops:
        """The shipping loops, made on first use, so that a start does not wait for their imports."""
        with self._loading:
            if self._loaded is None:
                from runyard.supervisor.shipping.shipper import ShippingLoops

                self._loaded = ShippingLoops(
                    self._folder, self._job, self.connection, self.reporter, is_guest=self.is_guest
                )
            return self._loaded

    def start_soon(self) -> None:
        """Start after 0.05 s, from a timer's thread: more threads would slow down the supervisor's first steps."""
        timer = threading.Timer(START_SOON_S, self.start)
        timer.daemon = True
        timer.start()

    def start(self) -> None:
        """Start to report and ship. May be repeated: only the first call does something."""
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
        self.reporter.start()
        self.cargo.start()

    def ship_now(self) -> None:
        """Wake the loops that ship journals and check the disk. Returns at once."""
        self.cargo.ship_now()

    def ship_all(self) -> None:
        """Ship until the server has all that is on disk now; the loops may go on meanwhile. Waits through outages."""
        backoff = Backoff()
        while not self.cargo.shipper.is_drained():
            self.connection.insist(self.cargo.upload_all)
            if not self.connection.insist(self.cargo.shipper.step) and not self.cargo.shipper.is_drained():
                time.sleep(backoff.next_s() / 10)

    def tell(self, final: FinalState) -> None:
        """Send the end of an external run whose process goes on; later records are shipped all the same."""
        try:
            self.connection.insist(lambda: self._post_once(final))
        except RunyardError as error:
            logger.warning("the run's end was not taken: %s", error)

    def deliver(self, final: FinalState, *, instead: Optional[Callable[[FinalState], None]] = None) -> bool:
        """Send everything and then the final state. False when the server does not take this run any more.

        Called once, after the program's end; waits through outages. What the server refused for its content is tried
        once more and then named on the run; `keeps_folder` is True then.

        `instead` gets the end of a node that does not lead: the run's end is not that node's to report.
        """
        from runyard.supervisor.shipping.own_journal import end_children  # only needed at the end

        self.cargo.stop()
        self.cargo.tree.end()
        self.cargo.disk.bring_home()  # an earlier supervisor may not have come to it
        self.cargo.disk.warn_of_losses()
        try:
            self._drain()
            end_children(self._folder, self._job, self.cargo.seen.open_children())
            self.cargo.journals.warn_of_tails()
            self._warn_of_lost_files()
            if not self.cargo.refusals.is_empty():
                self.connection.insist(self.cargo.try_refused_again)
            self._drain()
            self.cargo.refusals.tell()
            self.reporter.stop()
            if instead is not None:
                self._post_warnings()
                instead(final)
            elif self._needs_server():
                self._post(final)
        except RunyardError as error:
            logger.error("the server does not take the end of this run, its folder is kept: %s", error)
            return self.reporter.is_superseded  # then another attempt goes on with the run
        return True

    @property
    def keeps_folder(self) -> bool:
        """Whether the run folder must stay, because it holds what the server refused. Not so when superseded."""
        return not self.cargo.refusals.is_empty() and not self.reporter.is_superseded

    def _needs_server(self) -> bool:
        """Return whether there is something to send: always, except for a guest without records and warnings."""
        return not self.is_guest or bool(self.cargo.journals.behind() or self.reporter.take_unreported())

    def _drain(self) -> None:
        """Upload the files that are left, then ship all journals and logs."""
        self.connection.insist(self.cargo.files.finish)
        self.ship_all()

    def _warn_of_lost_files(self) -> None:
        """Say on the run which new files of its work folder are not stored. A later attempt says it for itself."""
        lost = "" if self.reporter.is_superseded else self.cargo.tree.describe_lost(self.cargo.uploads.sources)
        if lost:
            self.reporter.warn("files", lost)

    def _post(self, final: FinalState) -> None:
        """Post the final state; ship again what the server lacks, and shorten an end that it refuses."""
        is_short = False
        while True:
            try:
                end = _shortened(final) if is_short else final
                return self.connection.insist(partial(self._post_once, end, is_short))
            except MissingContent as error:
                logger.warning("the server lacks something of this run, shipping again: %s", error)
                self.cargo.shipper.distrust()
                self._drain()
            except Conflict as error:  # the run has already ended, or another attempt runs
                logger.warning("the run's end was not taken: %s", error)
                return None
            except RunyardError as error:
                if is_short or isinstance(error, REFUSALS):
                    raise
                logger.warning("the run's end was refused, sending the least of it: %s", error)
                is_short = True

    def _post_warnings(self) -> None:
        """Post the warnings of a node that does not lead."""
        warnings = self.reporter.take_unreported()
        if warnings:
            body: ReportedState = {"status": RunStatus.PREPARING, "warnings": warnings}
            self.connection.insist(lambda: self.reporter.post(self._job.run_id, body))

    def _post_once(self, final: FinalState, is_short: bool = False) -> None:
        state: ReportedState = {"status": RunStatus(final["status"]), "error": final.get("error")}
        left: ReportedState = {} if is_short else {"warnings": self.reporter.take_unreported()}
        environment = None if is_short else self.reporter.find_unreported_environment()
        if environment is not None:
            left["environment"] = environment
        self.reporter.post(self._job.run_id, {**self.cargo.shipper.facts(), **state, **left})


def _shortened(final: FinalState) -> FinalState:
    """Return the end with a short error, which a server takes whatever its limits are."""
    error = final.get("error")
    if not isinstance(error, dict):
        return final
    message = str(error.get("message", ""))[:SHORT_MESSAGE]
    return {**final, "error": {"code": error.get("code", ""), "message": message, "details": {}}}
