"""What travels from the run folder to the server beside the run's state: records, logs, files. A loop for each."""

from __future__ import annotations

import os

from runyard.core.specs import JobSpec
from runyard.supervisor.disk import Disk
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.connection import Connection
from runyard.supervisor.shipping.files import OutputFiles
from runyard.supervisor.shipping.journals import Journals
from runyard.supervisor.shipping.logs import FOLDERS, Logs
from runyard.supervisor.shipping.loops import Loop
from runyard.supervisor.shipping.refusals import Refusals
from runyard.supervisor.shipping.reporter import Reporter
from runyard.supervisor.shipping.seen import SeenRuns
from runyard.supervisor.shipping.shipping import Shipper
from runyard.supervisor.shipping.uploads import ExplicitUploads, Uploader
from runyard.supervisor.work_folders import prefix_of, tracked_folders

SHIP_EVERY_S = 0.25
SCAN_EVERY_S = 1.0
SYNC_EVERY_S = 1.0


class Cargo:
    """`is_guest`: records and nothing else."""

    def __init__(
        self, folder: RunFolder, job: JobSpec, connection: Connection, reporter: Reporter, *, is_guest: bool
    ) -> None:
        warn = reporter.warn
        self.refusals = Refusals(folder, warn=warn)
        self.disk = Disk(folder, warn=warn, note=reporter.note)
        self.seen = SeenRuns(folder)
        uploader = Uploader(connection, job.run_id, attempt=job.attempt)
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
        self.files = OutputFiles(
            folder,
            job.run_id,
            tracked_folders(folder, job),
            since=began_at(folder) if job.interactive_folders else 0.0,
            prefix=prefix_of(job),
            uploader=uploader,
            explicit=self.uploads,
            refusals=self.refusals,
            warn=warn,
        )
        self._ship_loop = Loop("ship", self.shipper.step, every_s=SHIP_EVERY_S)
        file_loop = Loop("files", self.files.step, every_s=SCAN_EVERY_S)
        self._disk_loop = Loop("disk", self._look_after_disk, every_s=SYNC_EVERY_S)
        self._loops = (self._ship_loop, self.uploads.loop, file_loop, self._disk_loop)

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        for loop in self._loops:
            loop.stop()

    def ship_now(self) -> None:
        self._disk_loop.wake()
        self._ship_loop.wake()

    def _look_after_disk(self) -> None:
        self.disk.look()
        self.shipper.sync()

    def upload_all(self) -> None:
        while self.uploads.step():
            pass

    def try_refused_again(self) -> None:
        """At the end of the run. An outage is raised: call it again."""
        self.uploads.try_refused_again()
        self.files.try_refused_again()
        self.shipper.try_refused_again()


def began_at(folder: RunFolder) -> float:
    """Return when the run folder got its job."""
    try:
        return os.stat(folder.at("job.json")).st_mtime
    except OSError:
        return 0.0
