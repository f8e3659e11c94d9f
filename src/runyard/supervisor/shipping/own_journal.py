"""A journal of the supervisor's own: what it adds to a run is shipped like the program's records, exactly once.

At a run's end it also ends the child runs that the script left open.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Dict, Mapping, NamedTuple, Sequence

from runyard.core.formats import journal
from runyard.core.machine.facts import boot_id
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.run_folder import RunFolder


class Point(NamedTuple):
    """One point of a metric, with its own step and time."""

    name: str
    step: int
    time_ns: int  # CLOCK_MONOTONIC
    value: float


class OwnJournal:
    """A journal of one segment, made with its first record. One thread writes it; a failed write raises OSError."""

    def __init__(self, folder: RunFolder, job: JobSpec, *, run_id: str = "") -> None:
        self._folder = folder
        self._job = job
        self._run_id = run_id or job.run_id
        self._names: Dict[str, int] = {}
        self._fd = -1

    def __enter__(self) -> OwnJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, data: bytes) -> None:
        """Append whole records."""
        try:
            if self._fd < 0:
                self._open()
            if os.write(self._fd, data) != len(data):
                raise OSError(errno.ENOSPC, "a record was written in part")
        except OSError:  # a torn record ends its journal: the next record begins another
            self.close()
            raise

    def add_numbers(self, values: Mapping[str, float]) -> None:
        """Append one point of each metric, in one write."""
        now = time.monotonic_ns()
        data = b"".join(self._define(name) for name in values if name not in self._names)
        for name, value in values.items():
            data += journal.pack_number(journal.FLOAT, 0, 0, self._names[name], 0, now, float(value))
        self.add(data)

    def add_points(self, points: Sequence[Point]) -> None:
        """Append points with steps and times of their own, in one write."""
        parts = []
        for point in points:
            if point.name not in self._names:
                parts.append(self._define(point.name))
            name = self._names[point.name]
            parts.append(
                journal.pack_number(journal.FLOAT, journal.HAS_STEP, 0, name, point.step, point.time_ns, point.value)
            )
        self.add(b"".join(parts))

    def add_file(self, name: str, path: str) -> None:
        """Have the file `path`, relative to the run folder, stored as the run's file `name`."""
        size = os.stat(self._folder.at(path), follow_symlinks=False).st_size
        self.add(journal.pack_long(journal.FILE, {"name": name, "path": path, "size": size}))

    def close(self) -> None:
        """Close the segment; a later record begins a new one. May be repeated."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._names.clear()

    def _define(self, name: str) -> bytes:
        self._names[name] = len(self._names) + 1
        return journal.pack_long(journal.NAME, {"id": self._names[name], "name": name})

    def _open(self) -> None:
        node = f"n{self._job.node_rank}-" if self._job.node_rank > 0 else ""
        writer = f"{node}s-{os.getpid()}-{os.urandom(4).hex()}"
        path = self._folder.at("journal", f"{writer}.0.journal")
        header = journal.pack_long(journal.HEADER, self._header(writer))
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if os.write(self._fd, header) != len(header):
                raise OSError(errno.ENOSPC, "a header was written in part")
        except OSError:
            os.unlink(path)  # a full disk must not collect empty journals
            raise

    def _header(self, writer: str) -> journal.SegmentHeader:
        return {
            "format": journal.FORMAT,
            "run": self._run_id,
            "attempt": self._job.attempt,
            "writer": writer,
            "segment": 0,
            "rank": self._job.node_rank,
            "role": "supervisor",
            "pid": os.getpid(),
            "boot_id": boot_id(),
            "wall_ns": time.time_ns(),
            "t": time.monotonic_ns(),
        }


def end_children(folder: RunFolder, job: JobSpec, children: Sequence[str]) -> None:
    """Write an END record for each child run that is still open. May be repeated: the first END counts."""
    for child in children:
        message = "The run was interrupted: its process ended without ending this child run."
        end = {"status": RunStatus.FAILED.value, "error": {"code": "RunInterrupted", "message": message}}
        record = journal.pack_long(journal.END, {**end, "t": time.monotonic_ns()})
        with OwnJournal(folder, job, run_id=child) as own:
            own.add(_log_record(folder, child) + record)


def _log_record(folder: RunFolder, child: str) -> bytes:
    """Return the record that stores the output of the child's `with` block; b"" when there was none."""
    path = f"child_logs/{child}.txt"
    try:
        size = os.stat(folder.at(path), follow_symlinks=False).st_size
    except OSError:
        return b""
    return journal.pack_long(journal.FILE, {"name": "logs/user_log.txt", "path": path, "size": size})
