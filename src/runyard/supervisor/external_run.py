"""Supervises an external run: ships what its process writes, and ends the run when that process is gone."""

from __future__ import annotations

import logging
import os
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Optional, cast

from runyard.core.config.settings import Settings
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.lifecycle.outcome import folder_removed
from runyard.supervisor.lifecycle.stopping import Wake
from runyard.supervisor.proc import is_alive, open_pidfd
from runyard.supervisor.processes.reaper import remove_run_folder
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.connection import HomeGone
from runyard.supervisor.shipping.courier import Courier

if TYPE_CHECKING:
    from runyard.core.formats.documents import RunError
    from runyard.core.formats.run_files import FinalState
    from runyard.supervisor.shipping.tensorboard import EventFiles

logger = logging.getLogger(__name__)

LOOK_S = 1.0


class ExternalRun:
    """The supervisor of one external run. There is no reaper and there are no ranks: the process is the user's own."""

    def __init__(self, folder: RunFolder, job: JobSpec, settings: Settings) -> None:
        self._folder = folder
        self._job = job
        self._settings = settings
        self._wake = Wake(folder)
        self._courier = Courier(folder, job, settings, notify=self._wake.notify, aside=nullcontext)
        self._pid = job.interactive_pid or 0
        self._start_ticks = job.interactive_start_ticks or 0
        self._pidfd = open_pidfd(self._pid, self._start_ticks)
        self._events: Optional[EventFiles] = None

    def run(self) -> None:
        """Watch the process until the run has ended and all of it is delivered. Called once, by `main.watch`."""
        try:
            self._run()
        except HomeGone:
            logger.warning("the home is gone; there is nothing left to watch for")
            self._courier.cargo.disk.remove_overflow()

    def _run(self) -> None:
        self._courier.start()
        final = cast("FinalState", self._folder.read_object("final.json"))
        if not final:
            self._start_events()
            final = self._watch()
        if self._courier.deliver(final) and not self._folder.is_gone():
            self._folder.mark("done")
            if self._courier.keeps_folder:
                return
            self._courier.cargo.disk.remove_overflow()
            if not self._settings.keep_run_folders:
                remove_run_folder(self._folder)

    def _start_events(self) -> None:
        """Read the event files in the folders of the process. A guest has none: they are the run's own."""
        if not self._job.interactive_folders:
            return
        from runyard.supervisor.shipping.shipper import began_at
        from runyard.supervisor.shipping.tensorboard import EventFiles  # most watchers end before they need it

        cargo, since = self._courier.cargo, began_at(self._folder)
        self._events = EventFiles(self._folder, self._job, cargo.tree, self._courier.connection, since=since)
        self._events.start()

    def _keep(self, final: FinalState) -> None:
        while not self._folder.is_gone():
            try:
                return self._folder.write_end(final)
            except OSError as error:  # a full disk: an end that was reported must not change
                logger.warning("final.json could not be written: %s", error)
                time.sleep(1.0)

    def _watch(self) -> FinalState:
        """Return the end, once the process or the folder is gone, or the run has ended and no process writes to it.

        The end is told at once, when the process recorded it or the server wants it: other processes of the run, such
        as idle workers of a pool, may keep their journals open for long. What they log is still shipped.
        """
        told: Optional[FinalState] = None
        while is_alive(self._pid, self._start_ticks) and not self._folder.is_gone():
            self._wake.wait(self._pidfd, LOOK_S)
            if self._wake.was_rung():
                self._courier.ship_now()
            if self._wake.control_changed():
                self._courier.reporter.ask_now()
            has_ended = self._courier.cargo.seen.find_end(self._job.run_id) is not None
            if has_ended and not has_writers(self._folder.at("journal")):
                break
            if told is None and (has_ended or self._is_wished()):
                told = self._tell_end(with_files=has_ended)
        self._courier.cargo.disk.bring_home()
        if self._events is not None:
            self._events.stop()
        self._courier.ship_all()
        final = told or self._end()
        self._keep(final)
        return final

    def _tell_end(self, *, with_files: bool) -> FinalState:
        """Store what is there now, then report the end; the watcher stays for what follows."""
        if self._events is not None:
            self._events.catch_up()
        if with_files:
            self._courier.connection.insist(self._courier.cargo.files.finish)
        self._courier.ship_all()
        final = self._end()
        self._keep(final)
        self._courier.tell(final)
        return final

    def _is_wished(self) -> bool:
        reporter = self._courier.reporter
        if reporter.desired == "fail" and reporter.desired_error is None:
            reporter.ask_now()  # the answer to a shipment has no error: a heartbeat's has
            return False
        return reporter.desired is not None and not self._courier.is_guest

    def _end(self) -> FinalState:
        """Return the run's end: as the process recorded it, else as the server wants it, else interrupted."""
        said = self._courier.cargo.seen.find_end(self._job.run_id)
        if said is not None:
            error = said.get("error")
            told = cast("RunError", error) if isinstance(error, dict) else None
            return {"status": _terminal(said.get("status")), "error": told}
        if self._courier.reporter.desired == "cancel":
            return {"status": RunStatus.CANCELED.value, "error": None}
        if self._courier.reporter.desired == "fail":
            return {"status": RunStatus.FAILED.value, "error": self._courier.reporter.desired_error}
        if self._folder.is_gone():
            return {"status": RunStatus.FAILED.value, "error": folder_removed(self._folder)}
        message = (
            f"The run was interrupted: its process {self._pid} ended without `run.complete()` or `run.fail()`.\n"
            "What it logged until then is stored."
        )
        return {
            "status": RunStatus.FAILED.value,
            "error": {"code": "RunInterrupted", "message": message, "details": {}},
        }


def has_writers(journals: str) -> bool:
    """Return whether another process has a file in the folder `journals` open, as far as we may look."""
    root = os.path.realpath(journals) + os.sep
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        if int(pid) != os.getpid() and any(_is_below(f"/proc/{pid}/fd/{name}", root) for name in names):
            return True
    return False


def _is_below(link: str, root: str) -> bool:
    try:
        return os.readlink(link).startswith(root)
    except OSError:
        return False


def _terminal(status: Any) -> str:
    known = {one.value for one in RunStatus if one.is_terminal}
    return status if status in known else RunStatus.FAILED.value
