"""The thread that frees the content of deleted runs, once no upload can refer to it any more.

The thread sets content aside and frees it days later; `collect_now` frees it at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from runyard.artifacts.aside import Aside
from runyard.artifacts.collect import Collected, Collector
from runyard.artifacts.content import ContentStore
from runyard.core.errors import RunyardError
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)
GARBAGE = "garbage"  # the store's value: a run was deleted, and its content not collected yet
# The first round forgets the snapshots of deleted runs, the second finds that nothing refers to their content.
ROUNDS = 2
LOOK_EVERY_S = 3600.0  # whether what lies aside has lain there for long enough


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class CollectionRound:
    removed: int  # chunks and trees
    freed_bytes: int
    rest_within_s: float  # when the last of what is deleted now will be gone
    aside_bytes: int  # set aside, and freed some days later


class Collecting:
    """Sleeps until something was deleted; then collects twice, each time after the grace time has passed.

    `now` is the wall clock, `horizon` one that never runs ahead of the time that really passed. `drop_copies` removes
    copies of snapshots that lie on this machine: what was deleted shall not stay in them.
    """

    def __init__(
        self,
        store: RunStore,
        content: ContentStore,
        collector: Collector,
        aside: Aside,
        *,
        now: Callable[[], datetime] = _utc_now,
        horizon: Callable[[], datetime] = _utc_now,
        drop_copies: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._content = content
        self._grace_s = content.leases.grace_s
        self._collector = collector
        self._aside, self._now, self._horizon = aside, now, horizon
        self.drop_copies = drop_copies
        self._deleted = threading.Event()
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="collecting", daemon=True)

    def start(self) -> None:
        if self._store.find_value(GARBAGE):  # left by the server before
            self._deleted.set()
        self._thread.start()

    def stop(self) -> None:
        if self._content.unnamed.forget_old(0.0):
            self._leave_note()
        self._stopping.set()
        self._deleted.set()
        if self._thread.ident is not None:
            self._thread.join()

    def note(self) -> None:
        """Say that something is about to be deleted; a server that is killed now collects it after its next start."""
        self._store.set_value(GARBAGE, "1")
        self._deleted.set()

    def _leave_note(self) -> None:
        try:
            self._store.set_value(GARBAGE, "1")
        except RunyardError as error:
            logger.warning("unfinished uploads were not noted: %s", error)

    def collect_now(self, *, everything: bool = False) -> CollectionRound:
        """Free what nothing refers to while the caller waits.

        What an upload may still count on is collected later, as after a delete, and what lies aside stays. With
        `everything` both are freed too: an upload that is under way has to send its content again.
        """
        self.note()
        with self._turn:
            done = self._collector.collect(at_once=everything) or Collected(0, 0)
            freed = done.freed_bytes + (self._aside.free() if everything else 0)
            left = self._aside.size()
        # Two rounds, and what was used just now is held for up to two grace times.
        return CollectionRound(done.removed, freed, rest_within_s=ROUNDS * 2 * self._grace_s, aside_bytes=left)

    def take_back(self, ids: Sequence[str], uploader: str) -> int:
        """Free what an upload that failed has stored; return the bytes."""
        with self._turn:
            return self._collector.take_back(ids, uploader)

    def free_aside(self) -> int:
        """Free what has lain aside for long enough; return the bytes."""
        with self._turn:
            return self._aside.free(self._horizon())

    def _run(self) -> None:
        while True:
            while not self._deleted.wait(LOOK_EVERY_S):
                self._look_aside()
            self._deleted.clear()
            self.drop_copies()
            for left in reversed(range(ROUNDS)):
                # Leases last for up to two grace times.
                if self._stopping.wait(2 * self._grace_s):
                    return
                self._collect(is_last=left == 0)

    def _collect(self, *, is_last: bool) -> None:
        try:
            with self._turn:
                logger.info("set aside %s", self._collector.collect(aside=self._now()))
            if is_last and not self._deleted.is_set():
                self._store.set_value(GARBAGE, "")
        except RunyardError:
            # The edge of a thread. The next delete, or the next start, tries again.
            logger.exception("content could not be collected; nothing in use was removed")

    def _look_aside(self) -> None:
        try:
            if self._content.unnamed.forget_old(2 * self._grace_s):
                self.note()  # a client was killed in the middle of its upload
            freed = self.free_aside()
            if freed:
                logger.info("freed %d bytes that lay aside", freed)
        except RunyardError:
            # The edge of a thread, as above.
            logger.exception("what lies aside could not be freed")
