"""Free space on the server's disk: checked before the first byte of a large file is written, shared by all writers."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from runyard.core.errors import StoreUnavailable, TooLarge

TEAM_RESERVE_BYTES = 1 << 30  # stays free for the database, journals and logs
OWN_RESERVE_BYTES = 64 << 20  # of a private server: only its one user can fill the disk
RESERVE_SHARE = 20  # no more than a twentieth of a small disk


class ServerDisk(NamedTuple):
    total: int
    free: int


def look_at(folder: Path) -> ServerDisk:
    found = shutil.disk_usage(folder)
    return ServerDisk(found.total, found.free)


class Taken:
    """Bytes that a writer was promised. `wrote` gives back what the disk itself counts from then on."""

    def __init__(self, room: Room, size: int) -> None:
        self._room = room
        self._left = size

    def wrote(self, size: int) -> None:
        self._room._give_back(min(size, self._left))
        self._left = max(0, self._left - size)

    def end(self) -> None:
        self.wrote(self._left)


class Room:
    """Shared between threads. What one writer was promised, no other is."""

    def __init__(
        self, folder: Path, *, reserve_bytes: int = OWN_RESERVE_BYTES, look: Callable[[Path], ServerDisk] = look_at
    ) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._look = look
        self._lock = threading.Lock()
        self._promised = 0

    def check(self, size: int, what: str) -> None:
        """Raise as `take` does, and promise nothing: for what is written at once."""
        self._check(size, what)

    @contextmanager
    def take(self, size: int, what: str) -> Iterator[Taken]:
        """Promise `size` bytes for the time of a write.

        Raises:
            TooLarge: the disk is smaller than that, whatever is deleted.
            StoreUnavailable: not so much is free now.
        """
        with self._lock:
            self._check(size, what)
            self._promised += size
        taken = Taken(self, size)
        try:
            yield taken
        finally:
            taken.end()

    def _check(self, size: int, what: str) -> None:
        disk = self._look(self._folder)
        reserve = min(self._reserve_bytes, disk.total // RESERVE_SHARE)
        if size > disk.total - reserve:
            raise TooLarge(
                f"{what} would take {size:,} bytes on the server's disk.",
                why=f"The disk has {disk.total:,} bytes, of which {reserve:,} stay free for the server itself.",
                hint="Keep it on a datastore of your own: Datastore.register_folder().",
            )
        if size > disk.free - reserve - self._promised:
            raise StoreUnavailable(
                f"{what} would take {size:,} bytes on the server's disk.",
                why=f"{disk.free:,} bytes are free there; {self._promised:,} of them are promised to other writers and "
                f"{reserve:,} are kept for the server itself.",
                hint="Delete what nobody needs (`runyard runs delete`, then `runyard server collect`), and try again.",
            )

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._promised -= size
