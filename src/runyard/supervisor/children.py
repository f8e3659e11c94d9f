"""Child runs that a script made and never ended: closed through a journal of our own, like the script would have."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Sequence

from runyard.core import journal
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.proc import boot_id


def end_children(folder: RunFolder, job: JobSpec, children: Sequence[str]) -> None:
    """Write an END for each child run that is still open. Writing it twice is harmless: the first END counts."""
    for child in children:
        writer = f"s-{os.getpid()}-{os.urandom(4).hex()}"
        message = "The run was interrupted: its process ended without ending this child run."
        end = {"status": RunStatus.FAILED.value, "error": {"code": "RunInterrupted", "message": message}}
        data = journal.pack_long(journal.HEADER, _header(job, child, writer))
        data += _log_record(folder, child)
        data += journal.pack_long(journal.END, {**end, "t": time.monotonic_ns()})
        _write(folder.at("journal", f"{writer}.0.journal"), data)


def _log_record(folder: RunFolder, child: str) -> bytes:
    """Return the record that keeps what was printed in the child's `with` block; nothing when there was none."""
    path = f"child_logs/{child}.txt"
    try:
        size = os.stat(folder.at(path), follow_symlinks=False).st_size
    except OSError:
        return b""
    return journal.pack_long(journal.FILE, {"name": "logs/user_log.txt", "path": path, "size": size})


def _header(job: JobSpec, child: str, writer: str) -> Dict[str, Any]:
    return {
        "format": journal.FORMAT,
        "run": child,
        "attempt": job.attempt,
        "writer": writer,
        "segment": 0,
        "rank": 0,
        "role": "supervisor",
        "pid": os.getpid(),
        "boot_id": boot_id(),
        "wall_ns": time.time_ns(),
        "t": time.monotonic_ns(),
    }


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
