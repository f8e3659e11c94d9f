"""Everything that travels from the run folder to the server, and the order in which a run may be called finished."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any, Callable, Dict, Optional

from runyard.core.attempts import is_writer
from runyard.core.errors import MissingContent, UserError
from runyard.core.settings import Settings
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.children import end_children
from runyard.supervisor.connection import REFUSALS, Aside, Connection
from runyard.supervisor.files import OutputFiles
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.journals import Journals
from runyard.supervisor.lease import Lease
from runyard.supervisor.logs import FOLDERS, Logs
from runyard.supervisor.loops import Backoff, Loop
from runyard.supervisor.reporter import Reporter
from runyard.supervisor.seen import SeenRuns
from runyard.supervisor.shipping import Shipper
from runyard.supervisor.uploads import ExplicitUploads, Uploader
from runyard.supervisor.work_folders import prefix_of, tracked_folders

logger = logging.getLogger(__name__)

SHIP_EVERY_S = 0.25
SCAN_EVERY_S = 1.0
SYNC_EVERY_S = 1.0
START_SOON_S = 0.05


class Courier:
    """`start` begins to report and ship; `deliver` sends what is left and then the end.

    A guest (a process that logs on a run which it is not) sends records and nothing else: no logs, no heartbeats, and
    it starts no server as long as it has nothing to send.
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
        self.is_guest = is_writer(job.attempt)
        self.connection = Connection(job, settings, aside=aside, needs_server=self._needs_server)
        self.lease = Lease(folder, job)
        leads = job.node_rank == 0
        beats = leads and not self.is_guest
        self.reporter = Reporter(self.connection, job, notify=notify, beats=beats, leads=leads, lease=self.lease)
        self.seen = SeenRuns(folder)
        warn = self.reporter.warn
        uploader = Uploader(self.connection, job.run_id, attempt=job.attempt)
        self._uploads = ExplicitUploads(folder, job.run_id, uploader=uploader, warn=warn, done=self.ship_now)
        self._journals = Journals(folder, job.run_id, uploads=self._uploads, seen=self.seen, warn=warn)
        self.shipper = Shipper(
            job.run_id,
            self._journals,
            Logs(folder, warn=warn, folders=() if self.is_guest else FOLDERS),
            connection=self.connection,
            warn=warn,
            hear=self.reporter.hear,
        )
        self._files = OutputFiles(
            folder,
            job.run_id,
            tracked_folders(folder, job),
            since=began_at(folder) if job.interactive_folders else 0.0,
            prefix=prefix_of(job),
            uploader=uploader,
            explicit=self._uploads,
            warn=warn,
        )
        self._lock = threading.Lock()
        self._is_started = False
        self._ship_loop = Loop("ship", self.shipper.step, every_s=SHIP_EVERY_S)
        self._file_loop = Loop("files", self._files.step, every_s=SCAN_EVERY_S)
        self._sync_loop = Loop("sync", self.shipper.sync, every_s=SYNC_EVERY_S)

    def start_soon(self) -> None:
        """Begin a moment later: threads of ours would slow the first steps down, which usually take no longer."""
        timer = threading.Timer(START_SOON_S, self.start)
        timer.daemon = True
        timer.start()

    def start(self) -> None:
        """Begin now, if it has not begun."""
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
        self.reporter.start()
        for loop in (self._ship_loop, self._uploads.loop, self._file_loop, self._sync_loop):
            loop.start()

    def ship_now(self) -> None:
        self._ship_loop.wake()

    def ship_all(self) -> None:
        """Ship until the server holds all that is on disk now; the loops may go on meanwhile."""
        backoff = Backoff()
        while not self.shipper.is_drained():
            self.connection.insist(self._upload_all)
            if not self.connection.insist(self.shipper.step) and not self.shipper.is_drained():
                time.sleep(backoff.next_s() / 10)

    def tell(self, final: Dict[str, Any]) -> None:
        """Send the end of a run whose process goes on; what comes after it is shipped all the same."""
        try:
            self.connection.insist(lambda: self._post_once(final))
        except UserError as error:
            logger.warning("the run's end was not taken: %s", error)

    def deliver(self, final: Dict[str, Any], *, instead: Optional[Callable[[Dict[str, Any]], None]] = None) -> bool:
        """Send everything, then the final state. False when the server does not take this run any more.

        `instead` gets the end of a node that does not lead, which is not the run's.
        """
        for loop in (self._ship_loop, self._uploads.loop, self._file_loop, self._sync_loop):
            loop.stop()
        try:
            self._drain()
            end_children(self._folder, self._job, self.seen.open_children())
            self._journals.warn_of_tails()
            self._drain()
            self.reporter.stop()
            if instead is not None:
                self._post_warnings()
                instead(final)
            elif self._needs_server():
                self._post(final)
        except UserError as error:
            logger.error("the server does not take the end of this run: %s", error)
            return self.reporter.is_superseded  # another attempt goes on with it
        return True

    def _needs_server(self) -> bool:
        return not self.is_guest or bool(self._journals.behind() or self.reporter.take_unreported())

    def _drain(self) -> None:
        self.connection.insist(self._files.finish)
        self.ship_all()

    def _upload_all(self) -> None:
        while self._uploads.step():
            pass

    def _post(self, final: Dict[str, Any]) -> None:
        while True:
            try:
                return self.connection.insist(lambda: self._post_once(final))
            except MissingContent as error:
                logger.warning("the server lacks something of this run, shipping again: %s", error)
                self.shipper.distrust()
                self._drain()
            except REFUSALS:
                raise
            except UserError as error:  # somebody else ended it, or another attempt runs: there is nothing to add
                logger.warning("the run's end was not taken: %s", error)
                return None

    def _post_warnings(self) -> None:
        warnings = self.reporter.take_unreported()
        if warnings:
            body = {"status": RunStatus.PREPARING, "warnings": warnings}
            self.connection.insist(lambda: self.reporter.post(self._job.run_id, body))

    def _post_once(self, final: Dict[str, Any]) -> None:
        body = {"status": RunStatus(final["status"]), "error": final.get("error"), **self.shipper.facts()}
        left: Dict[str, Any] = {"warnings": self.reporter.take_unreported()}
        environment = self.reporter.find_unreported_environment()
        if environment is not None:
            left["environment"] = environment
        self.reporter.post(self._job.run_id, {**body, **left})


def began_at(folder: RunFolder) -> float:
    """Return when the run folder got its job."""
    try:
        return os.stat(folder.at("job.json")).st_mtime
    except OSError:
        return 0.0
