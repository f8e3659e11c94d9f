"""Quotas: how many bytes of files a run and a user may have. Off unless the server's settings set a number.

The files of a user are those of all their runs, and what they and their runs wrote to the server's own datastores.
Sizes are those of the files as they would be downloaded: content that several files share counts for each of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from runyard.core.errors import TooLarge
from runyard.core.records import Run, RunFile
from runyard.store.base import RunStore

RECOUNT_S = 60.0  # a total that is over its quota is counted again, since files may have been deleted
_MOST_KNOWN = 10_000
_DATA = "data_bytes:"  # the store's value with what a user wrote to the server's datastores


class Quotas:
    """Shared between threads. A total is counted in the store once and kept up to date here; 0: no quota."""

    def __init__(
        self,
        store: RunStore,
        *,
        run_bytes: int = 0,
        user_bytes: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._run_bytes = run_bytes
        self._user_bytes = user_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._totals: dict[tuple[str, str], tuple[int, float]] = {}  # what was counted, and when

    def add(self, run: Run, file: RunFile) -> None:
        """Count a file that is about to be named.

        Raises:
            TooLarge: the run, or its user, would have more than the quota.
        """
        if not self._run_bytes and not self._user_bytes:
            return
        old = self._store.find_file(run.id, file.name)
        size = file.size - (0 if old is None else old.size)
        with self._lock:
            if self._run_bytes:
                self._check(("run", run.id), size, self._run_bytes, f"Run `{run.id}`", "server.quota_run_bytes")
            if self._user_bytes and run.submitted_by:
                whose = f"User `{run.submitted_by}`"
                self._check(("user", run.submitted_by), size, self._user_bytes, whose, "server.quota_user_bytes")
                self._grow(("user", run.submitted_by), size)
            if self._run_bytes:
                self._grow(("run", run.id), size)

    def add_data(self, user: str, size: int) -> None:
        """Count bytes that a user writes to a datastore of the server; less than 0: what they replace was larger.

        Raises:
            TooLarge: the user would have more than the quota.
        """
        if not self._user_bytes or not user:
            return
        with self._lock:
            key = ("user", user)
            self._check(key, size, self._user_bytes, f"User `{user}`", "server.quota_user_bytes")
            self._grow(key, size)
            self._store.set_value(_DATA + user, str(max(0, self._data_of(user) + size)))

    def _data_of(self, user: str) -> int:
        return int(self._store.find_value(_DATA + user) or 0)

    def _check(self, key: tuple[str, str], size: int, most: int, whose: str, setting: str) -> None:
        if self._total(key, most - size) + size <= most or size <= 0:
            return
        raise TooLarge(
            f"{whose} would have {self._totals[key][0] + size:,} bytes of files.",
            why=f"{most:,} bytes are the most: the server's setting `{setting}`.",
            hint="Delete runs or files that nobody needs, or ask an admin for more.",
        )

    def _total(self, key: tuple[str, str], enough: int) -> int:
        """Return the bytes that are there; counted again when they are more than `enough` and were counted long ago."""
        now = self._clock()
        total, at = self._totals.get(key, (enough + 1, -RECOUNT_S))
        if total > enough and now - at >= RECOUNT_S:
            kind, name = key
            if kind == "run":
                total = self._store.sum_file_sizes(run_id=name)
            else:
                total = self._store.sum_file_sizes(submitted_by=name) + self._data_of(name)
            if len(self._totals) >= _MOST_KNOWN:
                self._totals.clear()
            self._totals[key] = (total, now)
        return total

    def _grow(self, key: tuple[str, str], size: int) -> None:
        total, at = self._totals[key]
        self._totals[key] = (total + size, at)
