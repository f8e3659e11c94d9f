"""The thread that frees the bytes of deleted runs, once no upload can count on them any more."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from runyard.artifacts.collect import Collected, Collector
from runyard.artifacts.content import ContentStore
from runyard.core.errors import RunyardError
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)
GARBAGE = "garbage"  # the store's value: a run was deleted, and its content not collected yet
# The first round forgets the snapshots of deleted runs, the second finds that nobody counts on their content.
ROUNDS = 2


@dataclass(frozen=True)
class Collection:
    removed: int  # chunks and trees
    freed_bytes: int
    rest_within_s: float  # when the last of what is deleted now will be gone


class Collecting:
    """Sleeps until something was deleted; then collects twice, each time after the grace time has passed."""

    def __init__(self, store: RunStore, content: ContentStore, collector: Collector) -> None:
        self._store = store
        self._grace_s = content.leases.grace_s
        self._collector = collector
        self._deleted = threading.Event()
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="collecting", daemon=True)

    def start(self) -> None:
        if self._store.find_value(GARBAGE):  # left by the server before
            self._deleted.set()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._deleted.set()
        if self._thread.ident is not None:
            self._thread.join()

    def note(self) -> None:
        """Say that something is about to be deleted; a server that is killed now collects it after its next start."""
        self._store.set_value(GARBAGE, "1")
        self._deleted.set()

    def collect_now(self) -> Collection:
        """Collect while the caller waits. What an upload may still count on is collected later, as after a delete."""
        self.note()
        with self._turn:
            done = self._collector.collect() or Collected(0, 0)
        # Two rounds, and what was used just now is held for up to two grace times.
        return Collection(done.removed, done.freed_bytes, rest_within_s=ROUNDS * 2 * self._grace_s)

    def _run(self) -> None:
        while True:
            self._deleted.wait()
            self._deleted.clear()
            for left in reversed(range(ROUNDS)):
                # Leases last for up to two grace times.
                if self._stopping.wait(2 * self._grace_s):
                    return
                self._collect(is_last=left == 0)

    def _collect(self, *, is_last: bool) -> None:
        try:
            with self._turn:
                logger.info("collected %s", self._collector.collect())
            if is_last and not self._deleted.is_set():
                self._store.set_value(GARBAGE, "")
        except RunyardError:
            # The edge of a thread. The next delete, or the next start, tries again.
            logger.exception("content could not be collected; nothing in use was removed")
