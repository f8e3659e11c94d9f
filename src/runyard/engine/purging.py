"""The thread that lets deleted runs go for good when their time is over. It starts with the first that is deleted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from runyard.core.errors import RunyardError

logger = logging.getLogger(__name__)
AGAIN_S = 60.0  # after a round that could not do all
MOST_S = 3600.0  # the wall clock may be moved meanwhile


class Purging:
    """`purge` deletes some of what is due and returns it, `find_next` says when that is; the thread alone asks them."""

    def __init__(
        self, purge: Callable[[], object], find_next: Callable[[], datetime | None], now: Callable[[], datetime]
    ) -> None:
        self._purge, self._find_next, self._now = purge, find_next, now
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_open = False
        self._stopping = False

    def start(self) -> None:
        """Take up what the server before left."""
        self._is_open = True
        if self._find_next() is not None:
            self.note()

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            thread = self._thread
        self._news.set()
        if thread is not None:
            thread.join()

    def note(self) -> None:
        """Something was deleted: see to it."""
        self._news.set()
        with self._lock:
            if self._thread is None and self._is_open and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="purging", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopping:
            self._news.clear()
            wait_s = self._round()
            if not self._stopping:
                self._news.wait(wait_s)

    def _round(self) -> float | None:
        """Purge what is due; return how long nothing will be, None when nothing is deleted."""
        try:
            while self._purge() and not self._stopping:
                logger.debug("deleted runs were let go; there may be more")
            due = self._find_next()
        except (RunyardError, OSError):
            # The edge of a thread: the store may be full or locked now and well in a minute.
            logger.exception("deleted runs could not be let go")
            return AGAIN_S
        if due is None:
            return None
        left = (due - self._now()).total_seconds()
        return AGAIN_S if left <= 0 else min(left, MOST_S)
