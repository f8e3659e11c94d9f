"""What engines say about their machines: asked by a thread, at most every few seconds, and nobody waits for long.

Which nodes of a pool are there without a run: those that a run left not long ago. Forgotten by a restart.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from runyard.compute.base import Attachable, ClusterNode
from runyard.core.errors import RunyardError
from runyard.engine.state.allocation import QueueEntry
from runyard.engine.state.backends import MOST_INSTANCES, Backends, InstanceKey
from runyard.engine.state.targets import Key

logger = logging.getLogger(__name__)

FRESH_S = 5.0
WAIT_S = 4.0


@dataclass(frozen=True)
class NodesSeen:
    """`nodes` None: this engine has none to tell of. `note` says what was wrong with the last question."""

    nodes: list[ClusterNode] | None = None
    note: str = ""


@dataclass
class _Engine:
    seen: NodesSeen = field(default_factory=NodesSeen)
    seen_at: float = float("-inf")
    asked_at: float = float("-inf")
    asking: threading.Thread | None = None


class ClusterNodes:
    """Shared between threads."""

    def __init__(self, backends: Backends, *, fresh_s: float = FRESH_S, wait_s: float = WAIT_S) -> None:
        self._backends = backends
        self._fresh_s, self._wait_s = fresh_s, wait_s
        self._lock = threading.Lock()
        self._engines: dict[InstanceKey, _Engine] = {}

    def ask(self, key: InstanceKey) -> None:
        """Begin to ask, when what is known is old; `look` waits for less then."""
        with self._lock:
            engine = self._engines.setdefault(key, _Engine())
            for old in list(self._engines)[:-MOST_INSTANCES]:
                del self._engines[old]
            now = time.monotonic()
            if now - engine.seen_at < self._fresh_s or engine.asking is not None:
                return
            engine.asked_at = now
            engine.asking = threading.Thread(target=self._answer, args=(key, engine), name="nodes", daemon=True)
            engine.asking.start()

    def look(self, key: InstanceKey) -> NodesSeen:
        """Return the engine's machines as they were a few seconds ago at most, or what was known last and a note."""
        self.ask(key)
        with self._lock:
            engine = self._engines.get(key, _Engine())
            asking, until = engine.asking, engine.asked_at + self._wait_s
        if asking is not None:
            asking.join(max(0.0, until - time.monotonic()))
        with self._lock:
            if engine.asking is None:
                return engine.seen
            return NodesSeen(engine.seen.nodes, "Its engine has not answered yet; this is what was known last.")

    def forget(self, key: InstanceKey) -> None:
        with self._lock:
            self._engines.pop(key, None)

    def _answer(self, key: InstanceKey, engine: _Engine) -> None:
        seen = _seen(lambda: _list(self._backends, key), engine.seen)
        with self._lock:
            engine.seen, engine.seen_at, engine.asking = seen, time.monotonic(), None


def _list(backends: Backends, key: InstanceKey) -> NodesSeen:
    backend = backends.get(key)
    return NodesSeen(backend.list_nodes()) if isinstance(backend, Attachable) else NodesSeen()


def _seen(ask: Callable[[], NodesSeen], before: NodesSeen) -> NodesSeen:
    try:
        return ask()
    except RunyardError as error:
        return NodesSeen(before.nodes, " ".join(filter(None, (error.what, error.why))))
    except Exception as error:
        # A backend may be somebody else's code; what it cannot tell concerns only who looks at its nodes.
        logger.exception("an engine could not list its nodes")
        return NodesSeen(before.nodes, f"Its engine could not be asked ({type(error).__name__}: {error}).")


class IdleNodes:
    """Shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[Key, dict[int, datetime]] = {}

    def note_release(self, job: QueueEntry, now: datetime) -> None:
        """Remember that a run has left its nodes."""
        if not job.launched or not job.slots:
            return
        with self._lock:
            self._left.setdefault((job.workspace, job.target), {}).update(dict.fromkeys(job.slots, now))

    def still_there(self, key: Key, *, idle_seconds: int, now: datetime) -> set[int]:
        """Return the nodes that were left less than `idle_seconds` ago."""
        since = now - timedelta(seconds=idle_seconds)
        with self._lock:
            return {slot for slot, left in self._left.get(key, {}).items() if left > since}

    def last_release(self, key: Key) -> datetime | None:
        """Return when a run left a node last."""
        with self._lock:
            return max(self._left.get(key, {}).values(), default=None)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._left.pop(key, None)
