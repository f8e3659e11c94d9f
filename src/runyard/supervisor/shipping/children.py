"""Child runs that a script made and never ended: closed through a journal of our own, like the script would have."""

from __future__ import annotations

import os
import time
from typing import Sequence

from runyard.core.formats import journal
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.own_journal import OwnJournal


def end_children(folder: RunFolder, job: JobSpec, children: Sequence[str]) -> None:
    """Write an END for each child run that is still open. Writing it twice is harmless: the first END counts."""
    for child in children:
        message = "The run was interrupted: its process ended without ending this child run."
        end = {"status": RunStatus.FAILED.value, "error": {"code": "RunInterrupted", "message": message}}
        record = journal.pack_long(journal.END, {**end, "t": time.monotonic_ns()})
        with OwnJournal(folder, job, run_id=child) as own:
            own.add(_log_record(folder, child) + record)


def _log_record(folder: RunFolder, child: str) -> bytes:
    """Return the record that keeps what was printed in the child's `with` block; nothing when there was none."""
    path = f"child_logs/{child}.txt"
    try:
        size = os.stat(folder.at(path), follow_symlinks=False).st_size
    except OSError:
        return b""
    return journal.pack_long(journal.FILE, {"name": "logs/user_log.txt", "path": path, "size": size})
