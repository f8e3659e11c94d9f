"""Where a process of a run puts what the run's disk has no room for.

The supervisor makes a folder in memory (`core.machine.disk`) when it learns that the disk is full, and links it as
`overflow` in the run folder. Records, last lines and the report of an exception survive there until they are shipped,
also when the process is killed. `journal/waiting` counts what only this process's own memory holds. This small file
exists from the start, so it can be written in place on a full disk, and tells after a kill how much is missing.
"""

from __future__ import annotations

import os
import zlib
from typing import Optional

from runyard.core.machine import disk


def find_folder(run_folder: str) -> Optional[str]:
    """Return the folder in memory, if the supervisor made one that this process can reach."""
    path = f"{run_folder}/{disk.OVERFLOW}"
    try:
        status = os.stat(path)
    except OSError:
        return None
    is_ours = status.st_uid == os.geteuid() and status.st_mode & 0o077 == 0
    return path if is_ours and os.access(path, os.W_OK | os.X_OK) else None


class OverflowTally:
    """This process's cell of `journal/waiting`. Nothing here raises: without the file nothing is counted."""

    def __init__(self, run_folder: str, owner: str) -> None:
        self._path = f"{run_folder}/{disk.WAITING}"
        self._owner = owner
        self._fd = -1
        self._cell = -1

    def write(self, code: int, *, waiting: int, waiting_numbers: int = 0, lost: int = 0, lost_numbers: int = 0) -> None:
        """Say how much waits in memory and how much was dropped; all zero gives the cell back."""
        count = disk.Count(self._owner, code, waiting, waiting_numbers, lost, lost_numbers)
        try:
            if not self._is_ours():
                self._take()
            os.pwrite(self._fd, disk.pack_count(count), self._cell * disk.COUNT_BYTES)
        except OSError:
            self._close()

    def _is_ours(self) -> bool:
        return self._cell >= 0 and disk.owner_of(self._read(self._cell)) == self._owner

    def _take(self) -> None:
        """Take a free cell. Two processes may take the same one; the loser finds out with its next write."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        first = zlib.crc32(self._owner.encode()) % disk.COUNTS
        for number in range(first, first + disk.COUNTS):
            if disk.owner_of(self._read(number % disk.COUNTS)) in ("", self._owner):
                self._cell = number % disk.COUNTS
                return
        self._cell = first  # more processes wait than there are cells

    def _read(self, cell: int) -> bytes:
        return os.pread(self._fd, disk.COUNT_BYTES, cell * disk.COUNT_BYTES)

    def _close(self) -> None:
        fd, self._fd, self._cell = self._fd, -1, -1
        if fd >= 0:
            os.close(fd)
