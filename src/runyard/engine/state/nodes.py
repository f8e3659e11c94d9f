"""The machines of clusters, asked for by a thread; and the nodes of pools that runs left not long ago."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from runyard.compute.base import ClusterNode, SupportsCheck
from runyard.core.errors import RunyardError
from runyard.engine.state.allocation import QueueEntry
from runyard.engine.state.backends import MOST_INSTANCES, Backends, InstanceKey
from runyard.engine.state.targets import Key

logger = logging.getLogger(__name__)

FRESH_S = 5.0
WAIT_S = 4.0


@dataclass(frozen=True)
class NodesSeen:
    """What a cluster said about its machines. `nodes` None: it lists none. `note`: what was wrong at the last call."""

    nodes: list[ClusterNode] | None = None
    note: str = ""


@dataclass
class _Cluster:
    """What is known of one cluster, and the thread that asks it."""

    seen: NodesSeen = field(default_factory=NodesSeen)
    seen_at: float = float("-inf")
    asked_at: float = float("-inf")
    asking: threading.Thread | None = None


class ClusterNodes:
    """The machines of each cluster, asked for by a thread at most every few seconds. Thread-safe."""

    def __init__(self, backends: Backends, *, fresh_s: float = FRESH_S, wait_s: float = WAIT_S) -> None:
        self._backends = backends
        self._fresh_s, self._wait_s = fresh_s, wait_s
        self._lock = threading.Lock()
        self._clusters: dict[InstanceKey, _Cluster] = {}

    def ask(self, key: InstanceKey) -> None:
        """Begin to ask the cluster if what is known is old. Returns at once."""
        with self._lock:
            cluster = self._clusters.setdefault(key, _Cluster())
            for old in list(self._clusters)[:-MOST_INSTANCES]:
                del self._clusters[old]
            now = time.monotonic()
            if now - cluster.seen_at < self._fresh_s or cluster.asking is not None:
                return
            cluster.asked_at = now
            cluster.asking = threading.Thread(target=self._answer, args=(key, cluster), name="nodes", daemon=True)
            cluster.asking.start()

    def look(self, key: InstanceKey) -> NodesSeen:
        """Return the cluster's machines as of a few seconds ago, or what was last known and a note. Waits up to 4 s."""
        self.ask(key)
        with self._lock:
            cluster = self._clusters.get(key, _Cluster())
            asking, until = cluster.asking, cluster.asked_at + self._wait_s
        if asking is not None:
            asking.join(max(0.0, until - time.monotonic()))
        with self._lock:
            if cluster.asking is None:
                return cluster.seen
            return NodesSeen(cluster.seen.nodes, "Its cluster has not answered yet; this is what was known last.")

    def forget(self, key: InstanceKey) -> None:
        """Drop what is known of a cluster that no target names any more."""
        with self._lock:
            self._clusters.pop(key, None)

    def _answer(self, key: InstanceKey, cluster: _Cluster) -> None:
        seen = _seen(lambda: _list(self._backends, key), cluster.seen)
        with self._lock:
            cluster.seen, cluster.seen_at, cluster.asking = seen, time.monotonic(), None


def _list(backends: Backends, key: InstanceKey) -> NodesSeen:
    backend = backends.get(key)
    return NodesSeen(backend.list_nodes()) if isinstance(backend, SupportsCheck) else NodesSeen()


def _seen(ask: Callable[[], NodesSeen], before: NodesSeen) -> NodesSeen:
    try:
        return ask()
    except RunyardError as error:
        return NodesSeen(before.nodes, " ".join(filter(None, (error.what, error.why))))
    except Exception as error:
        # A backend may be somebody else's code; what it cannot tell concerns only who looks at its nodes.
        logger.exception("a cluster could not list its nodes")
        return NodesSeen(before.nodes, f"Its cluster could not be asked ({type(error).__name__}: {error}).")


class IdleNodes:
    """The nodes of pools that a run left not long ago. Thread-safe; in memory only."""

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
        """Drop the nodes of a deleted target."""
        with self._lock:
            self._left.pop(key, None)
