"""The loops that ship journals, logs and files to the server, and the one that builds the requests.

A shipment carries everything that grew, as raw bytes, without work per record.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from runyard.core.errors import RunyardError, is_later
from runyard.core.formats.journal import CELL
from runyard.core.specs import JobSpec
from runyard.supervisor.disk import Disk
from runyard.supervisor.run_folder import RunFolder, drop_spares_of, prefix_of, tracked_folders
from runyard.supervisor.shipping.connection import REFUSALS, Connection
from runyard.supervisor.shipping.files import OutputFiles
from runyard.supervisor.shipping.journals import LEAST_BYTES, PART_BYTES, Frame, Journals
from runyard.supervisor.shipping.logs import FOLDERS, Log, Logs
from runyard.supervisor.shipping.loops import ShippingLoop
from runyard.supervisor.shipping.refusals import Refusals, explain, is_again, is_failure_of_ours, keep_record
from runyard.supervisor.shipping.reporter import Reporter
from runyard.supervisor.shipping.segments import ChildRunLedger, Segment
from runyard.supervisor.shipping.uploads import ExplicitUploads, Uploader
from runyard.supervisor.shipping.work_tree import WorkTree

if TYPE_CHECKING:
    from runyard.core.formats.documents import RunError
    from runyard.supervisor.shipping.reporter import ReportedState

logger = logging.getLogger(__name__)

REQUEST_BYTES = 8 << 20
REFUSED_IN_A_ROW = 100  # after so many refused records of one segment the rest of it counts as refused
SHIP_EVERY_S = 0.25
SCAN_EVERY_S = 1.0
SYNC_EVERY_S = 1.0


class Shipper:
    """Ships journals and logs. The thread `ship` calls `step`; at the end the main thread calls it until all is stored.

    `_lock` lets one of them work at a time.
    """

    def __init__(
        self,
        run_id: str,
        journals: Journals,
        logs: Logs,
        *,
        connection: Connection,
        refusals: Refusals,
        hear: Callable[[Optional[str], Optional[RunError], int], None],
    ) -> None:
        self._run_id = run_id
        self._journals = journals
        self._logs = logs
        self._connection = connection
        self._refusals = refusals
        self._hear = hear
        self._one_by_one = False
        self._lock = threading.Lock()

    def step(self) -> bool:
        """Ship one request; return True when more is waiting. May be repeated after any error."""
        with self._lock:
            self._look()
            if self._one_by_one:
                return self._step_one_by_one()
            frames, is_full = self._gather()
            if frames:
                self._ship(frames)
            return self._journals.take_new_child() or is_full

    def is_drained(self) -> bool:
        """Return whether the server has every whole record and log byte that is on disk now."""
        with self._lock:
            self._look()
            return not self._journals.behind() and not self._logs.behind()

    def facts(self) -> ReportedState:
        """Return the marks and log sizes for the final state."""
        return {"marks": self._journals.marks(), "logs": self._logs.sizes()}

    def try_refused_again(self) -> None:
        """At the run's end, make all that was refused shippable again. What is refused then stays refused."""
        with self._lock:
            for source in ("logs", "journal"):
                for entry in self._refusals.list(source):
                    self._refusals.settle(source, str(entry["what"]))
            for log in self._logs.refused():
                log.refusal = ""
            for segment in self._journals.refused():
                segment.refusal = ""
            self._journals.release_refused()

    def distrust(self) -> None:
        """Forget what the server has stored, because it lacks some of it; the next answers say where to go on."""
        with self._lock:
            self._journals.forget()
            self._logs.forget()

    def sync(self) -> None:
        """Sync grown journals to disk; stored bytes are safe already. The thread `disk` calls this without the lock."""
        for segment in self._journals.unsynced():
            try:
                fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def _look(self) -> None:
        self._journals.look()
        self._logs.look()

    def _gather(self) -> Tuple[List[Frame], bool]:
        frames: List[Frame] = []
        room = REQUEST_BYTES
        asked = False
        for log in self._logs.behind():
            frame = log.frame() if room > 0 else None
            if frame is not None:
                frames.append(frame)
                room -= len(frame[1])
                asked = asked or log.offset is None
        behind = self._journals.behind()
        for segment in behind:
            if room > 0:
                share = max(LEAST_BYTES, REQUEST_BYTES // len(behind))
                part = self._journals.part(segment, most_bytes=share)
                frames += part.frames
                room -= part.size
        return frames, room <= 0 or asked or (bool(frames) and self._has_long_tail())

    def _has_long_tail(self) -> bool:
        """Return whether one file has more than half a request waiting."""
        return any(segment.size - segment.offset > REQUEST_BYTES // 2 for segment in self._journals.behind()) or any(
            log.offset is not None and log.size - log.offset > REQUEST_BYTES // 2 for log in self._logs.behind()
        )

    def _ship(self, frames: List[Frame]) -> None:
        try:
            self._send(frames)
        except RunyardError as error:
            if not _is_about_one(error, has_foreign=any("run" in head for head, _ in frames)):
                raise
            logger.warning("the server does not take a shipment, trying its parts one by one: %s", error)
            self._one_by_one = True

    def _send(self, frames: List[Frame]) -> None:
        answer = self._connection.call(lambda: self._connection.client.runs.ship(self._run_id, frames))
        self._journals.took(answer.marks)
        self._logs.took(answer.logs)
        self._hear(answer.desired, None, answer.attempt)

    def _step_one_by_one(self) -> bool:
        """After a refused shipment, ship its parts one by one, and go on without those that the server refuses."""
        held: Optional[RunyardError] = None
        for log in self._logs.behind():
            held = self._alone(lambda log=log: self._ship_log_alone(log)) or held  # type: ignore[misc]  # bound now
        for segment in self._journals.behind():
            held = self._alone(lambda one=segment: self._ship_segment_alone(one)) or held  # type: ignore[misc]
        if held is not None:
            raise held
        self._one_by_one = False
        return True

    def _alone(self, ship: Callable[[], None]) -> Optional[RunyardError]:
        """Ship one part; return the error when the server itself failed on it, so that others are shipped meanwhile."""
        try:
            ship()
        except RunyardError as error:
            if not is_failure_of_ours(error):
                raise
            return error
        return None

    def _ship_log_alone(self, log: Log) -> None:
        frame = log.frame()
        error = self._try_alone([frame], is_foreign=False) if frame is not None else None
        if error is None:
            return
        if is_later(error):
            raise error
        log.refusal = explain(error)
        self._refusals.add("logs", f"the log {log.name}", log.refusal)

    def _ship_segment_alone(self, segment: Segment) -> None:
        """Halve what is refused until the one record is found that the server refuses."""
        is_foreign = self._journals.is_foreign(segment)
        most_bytes, in_a_row = PART_BYTES, 0
        while segment.is_behind:
            part = self._journals.part(segment, most_bytes=most_bytes)
            span = (segment.offset, part.end)
            if not part.frames:
                return
            error = self._try_alone(part.frames, is_foreign=is_foreign)
            if error is None:
                most_bytes = min(most_bytes * 2, PART_BYTES)
                in_a_row = in_a_row if span in segment.skipped else 0
            elif most_bytes > CELL and not is_foreign:
                most_bytes = max(CELL, min(most_bytes, span[1] - span[0]) // 2 // CELL * CELL)
            elif is_later(error):
                raise error
            elif is_foreign or span in segment.skipped or in_a_row >= REFUSED_IN_A_ROW:
                segment.refusal = explain(error)
                self._refusals.add("journal", self._rest_of(segment), segment.refusal)
            else:
                in_a_row += 1
                self._skip(segment, span, explain(error))

    def _skip(self, segment: Segment, span: Tuple[int, int], why: str) -> None:
        """Leave one record out of the shipment, and keep it for another try."""
        if not is_again(segment):
            keep_record(segment, *span)
        segment.skipped.append(span)
        self._refusals.add("journal", f"records of {segment.name}", why, more=1)

    def _rest_of(self, segment: Segment) -> str:
        is_foreign = self._journals.is_foreign(segment)
        return f"records for run {segment.header.get('run')}" if is_foreign else f"the rest of {segment.name}"

    def _try_alone(self, frames: List[Frame], *, is_foreign: bool) -> Optional[RunyardError]:
        """Ship just these frames; return the refusal, None when they were taken. Outages are raised."""
        try:
            self._send(frames)
        except RunyardError as error:
            if not _is_about_one(error, has_foreign=is_foreign):
                raise
            logger.warning("refused: %s", error)
            return error
        return None


def _is_about_one(error: RunyardError, *, has_foreign: bool) -> bool:
    """Return whether a part of the shipment is the reason, so that the others may go without it."""
    if is_later(error):
        return is_failure_of_ours(error)
    return has_foreign or not isinstance(error, REFUSALS)


class ShippingLoops:
    """All that is shipped beside the run's state, with its threads: `ship`, `uploads`, `files` and `disk`.

    `is_guest`: ship records and no logs.
    """

    def __init__(
        self, folder: RunFolder, job: JobSpec, connection: Connection, reporter: Reporter, *, is_guest: bool
    ) -> None:
        warn = reporter.warn
        self.refusals = Refusals(folder, warn=warn)
        self.disk = Disk(folder, warn=warn, note=reporter.note, make_room=lambda: drop_spares_of(job))
        self.seen = ChildRunLedger(folder)
        uploader = Uploader(connection, job.run_id, attempt=None if is_guest else job.attempt)
        self.uploads = ExplicitUploads(
            folder, job.run_id, uploader=uploader, refusals=self.refusals, warn=warn, done=self.ship_now
        )
        self.journals = Journals(folder, job.run_id, uploads=self.uploads, seen=self.seen, warn=warn)
        self.shipper = Shipper(
            job.run_id,
            self.journals,
            Logs(folder, warn=warn, folders=() if is_guest else FOLDERS),
            connection=connection,
            refusals=self.refusals,
            hear=reporter.hear,
        )
        self.tree = WorkTree(folder, job)
        self.files = OutputFiles(
            folder,
            job.run_id,
            tracked_folders(folder, job),
            since=began_at(folder) if job.interactive_folders else 0.0,
            prefix=prefix_of(job),
            tree=self.tree,
            uploader=uploader,
            explicit=self.uploads,
            refusals=self.refusals,
            warn=warn,
        )
        self._ship_loop = ShippingLoop("ship", self.shipper.step, every_s=SHIP_EVERY_S)
        file_loop = ShippingLoop("files", self.files.step, every_s=SCAN_EVERY_S)
        self._disk_loop = ShippingLoop("disk", self._look_after_disk, every_s=SYNC_EVERY_S)
        self._loops = (self._ship_loop, self.uploads.loop, file_loop, self._disk_loop)

    def start(self) -> None:
        """Start the threads. Called once, by `Courier.start`."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Stop the threads and wait for their current steps. May be repeated."""
        for loop in self._loops:
            loop.stop()

    def ship_now(self) -> None:
        """Wake the threads `ship` and `disk`. Any thread may call this; it returns at once."""
        self._disk_loop.wake()
        self._ship_loop.wake()

    def _look_after_disk(self) -> None:
        self.disk.look()
        self.shipper.sync()

    def upload_all(self) -> None:
        """Upload all files that FILE records wait for, in the calling thread. Raises outages."""
        while self.uploads.step():
            pass

    def try_refused_again(self) -> None:
        """At the run's end, try once more what was refused. An outage is raised: call it again."""
        self.uploads.try_refused_again()
        self.files.try_refused_again()
        self.shipper.try_refused_again()


def began_at(folder: RunFolder) -> float:
    """Return when the run folder got its job, as a wall clock time; 0 when that is unknown."""
    try:
        return os.stat(folder.at("job.json")).st_mtime
    except OSError:
        return 0.0
