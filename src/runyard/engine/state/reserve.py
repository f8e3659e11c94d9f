"""Keeps some disk space for the work that makes room there: cancels, deletes and collections."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from runyard.core.errors import StoreUnavailable
from runyard.core.machine.disk import NO_SPACE, RESERVE

logger = logging.getLogger(__name__)
T = TypeVar("T")

SIZE_BYTES = 8 << 20
FULL_BYTES = 1 << 20  # with less than this the disk counts as full


class Reserve:
    """A file of real blocks, removed when the disk is full and made again when there is room. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RESERVE
        self._lock = threading.Lock()

    def keep(self) -> None:
        """Make the file where it is missing and there is room for several of it. Raises nothing."""
        with self._lock:
            try:
                if not self._path.exists() and self._free_bytes() > 4 * SIZE_BYTES:
                    self._make()
            except OSError as error:
                logger.debug("no reserve: %s", error)

    def spend(self, work: Callable[[], T]) -> T:
        """Do `work`, which must be repeatable. On a full disk, free the reserve and try once more."""
        self.keep()
        try:
            return work()
        except (StoreUnavailable, OSError) as error:
            if not self._is_full(error) or not self._release():
                raise
            logger.warning("the disk is full; the reserve %s was freed", self._path)
            return work()

    def _is_full(self, error: Exception) -> bool:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            return True
        return self._free_bytes() < FULL_BYTES

    def _free_bytes(self) -> int:
        try:
            status = os.statvfs(self._path.parent)
        except OSError:
            return 0
        return (status.f_bavail if os.geteuid() else status.f_bfree) * status.f_frsize

    def _make(self) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(fd, 0, SIZE_BYTES)
        except OSError as error:
            self._path.unlink(missing_ok=True)
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        finally:
            os.close(fd)

    def _release(self) -> bool:
        with self._lock:
            try:
                self._path.unlink()
            except OSError:
                return False
            return True
