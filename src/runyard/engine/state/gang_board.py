"""What the nodes of a run tell each other through the server: one board per attempt, in memory.

It is lost with the process. `epoch` is another one then, and every node sends its facts again.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from runyard.core.errors import TooLarge
from runyard.core.formats.documents import NodeFacts, NodeNews

NODE_SILENT_S = 30.0
MOST_FACTS_BYTES = 64 << 20  # of all nodes of a run


@dataclass
class _Node:
    """One node of an attempt."""

    heard: float
    host: str = ""
    incarnation: str = ""  # of the process that joined; "": nobody did
    facts: NodeFacts = field(default_factory=NodeFacts)
    size: int = 0  # of the facts, in bytes
    failed_order: int = 0  # which of the nodes failed first, as it arrived here; 0: it has not
    lost: str = ""


@dataclass
class _Gang:
    """The nodes of one attempt. `version` grows with every change that nodes must see."""

    attempt: int
    version: int = 0
    nodes: dict[int, _Node] = field(default_factory=dict)


def _nobody(run_id: str) -> None:
    """Nobody waits for nodes."""


class GangBoard:
    """What the nodes of multi-node runs have reported. Thread-safe; `notify(run_id)` wakes nodes that wait."""

    def __init__(self, notify: Callable[[str], None] = _nobody) -> None:
        self.epoch = os.urandom(8).hex()
        self._notify = notify
        self._lock = threading.Lock()
        self._gangs: dict[str, _Gang] = {}

    def knows(self, run_id: str, attempt: int, rank: int) -> bool:
        """Whether the node has a lease in this attempt."""
        with self._lock:
            gang = self._gangs.get(run_id)
            return gang is not None and gang.attempt == attempt and rank in gang.nodes

    def add(self, run_id: str, attempt: int, rank: int, now: float, *, host: str = "", incarnation: str = "") -> None:
        """Begin the lease of a node, unless it has one."""
        with self._lock:
            self._of(run_id, attempt).nodes.setdefault(rank, _Node(now, host, incarnation))

    def is_of(self, run_id: str, rank: int, incarnation: str) -> bool:
        """Whether a word of this process is the node's: the one that joined, any where nobody did."""
        with self._lock:
            node = self._node(run_id, rank)
            return node is None or node.incarnation in ("", incarnation)

    def hear(self, run_id: str, attempt: int, rank: int, now: float, facts: NodeFacts | None) -> None:
        """Renew the node's lease, and put its facts in the place of those that it had."""
        with self._lock:
            gang = self._of(run_id, attempt)
            node = gang.nodes.setdefault(rank, _Node(now))
            node.heard = now
            is_new = facts is not None and facts != node.facts
            if facts is not None and is_new:
                size = len(json.dumps(facts, default=str))
                _check_size(run_id, sum(one.size for one in gang.nodes.values()) - node.size + size)
                gang.version += 1
                node.size = size
                self._note(gang, node, {**facts})
        if is_new:
            self._notify(run_id)

    def lose(self, run_id: str, rank: int, why: str) -> None:
        """Mark a node as lost for good: the others end the run for it. Only with proof."""
        with self._lock:
            gang = self._gangs.get(run_id)
            if gang is None or gang.nodes.get(rank, _Node(0.0)).lost:
                return
            gang.version += 1
            node = gang.nodes.setdefault(rank, _Node(0.0))
            node.lost = why
            self._note_failure(gang, node)
        self._notify(run_id)

    def touch(self, run_id: str) -> None:
        """Have all nodes of the run look again: something is wanted of it, or it has ended."""
        self._notify(run_id)

    def forget(self, run_id: str) -> None:
        """Drop the run's board and wake its nodes, when the run has ended."""
        with self._lock:
            self._gangs.pop(run_id, None)
        self._notify(run_id)

    def renew(self, now: float) -> None:
        """Start every lease anew, as after a pause of the server itself."""
        with self._lock:
            for gang in self._gangs.values():
                for node in gang.nodes.values():
                    node.heard = now

    def version(self, run_id: str) -> int:
        """Return the version of the run's board."""
        with self._lock:
            gang = self._gangs.get(run_id)
            return gang.version if gang is not None else 0

    def show(self, run_id: str, now: float) -> list[NodeNews]:
        """Return all nodes as their peers shall see them, by rank."""
        with self._lock:
            gang = self._gangs.get(run_id)
            nodes = sorted(gang.nodes.items()) if gang is not None else []
            return [_shown(rank, node, now) for rank, node in nodes]

    def silent_nodes(self, run_id: str, now: float) -> list[tuple[int, str, float]]:
        """Return (rank, host, seconds) of nodes that were not heard for a lease, though they did not end."""
        with self._lock:
            gang = self._gangs.get(run_id)
            nodes = sorted(gang.nodes.items()) if gang is not None else []
            return [(rank, node.host, now - node.heard) for rank, node in nodes if _is_silent(node, now)]

    def first_heard(self, run_id: str, now: float) -> float:
        """Return when the node was heard that is silent longest, of those that did not end; `now`: there is none."""
        with self._lock:
            gang = self._gangs.get(run_id)
            nodes = gang.nodes.values() if gang is not None else ()
            return min((node.heard for node in nodes if "ended" not in node.facts), default=now)

    def last_heard(self, run_id: str) -> float:
        """Return when the last of the nodes was heard that have not told their end; 0.0 when there is none."""
        with self._lock:
            gang = self._gangs.get(run_id)
            nodes = gang.nodes.values() if gang is not None else ()
            return max((node.heard for node in nodes if "ended" not in node.facts), default=0.0)

    def waiting_for(self, run_id: str, count: int) -> list[tuple[int, str]]:
        """Return (rank, host) of the nodes that the others wait for before they start; nothing when none waits."""
        with self._lock:
            gang = self._gangs.get(run_id)
            nodes = gang.nodes if gang is not None else {}
            ready = {rank for rank, node in nodes.items() if "ready" in node.facts}
            missing = [rank for rank in range(count) if rank not in ready] if ready else []
            return [(rank, nodes[rank].host if rank in nodes else "") for rank in missing]

    def _of(self, run_id: str, attempt: int) -> _Gang:
        gang = self._gangs.get(run_id)
        if gang is None or gang.attempt != attempt:
            gang = self._gangs[run_id] = _Gang(attempt)
        return gang

    def _node(self, run_id: str, rank: int) -> _Node | None:
        gang = self._gangs.get(run_id)
        return gang.nodes.get(rank) if gang is not None else None

    def _note(self, gang: _Gang, node: _Node, facts: NodeFacts) -> None:
        node.facts = facts
        node.host = str(facts.get("host") or node.host)
        if "failed" in facts:
            self._note_failure(gang, node)

    def _note_failure(self, gang: _Gang, node: _Node) -> None:
        node.failed_order = node.failed_order or 1 + max((one.failed_order for one in gang.nodes.values()), default=0)


def _check_size(run_id: str, size: int) -> None:
    if size > MOST_FACTS_BYTES:
        raise TooLarge(
            f"The nodes of run `{run_id}` tell each other {size:,} bytes.",
            why=f"{MOST_FACTS_BYTES:,} bytes are the most, since every node hears all of it.",
        )


def _is_silent(node: _Node, now: float) -> bool:
    return now - node.heard >= NODE_SILENT_S and "ended" not in node.facts


def _shown(rank: int, node: _Node, now: float) -> NodeNews:
    return {
        "rank": rank,
        "facts": node.facts,
        "lost": node.lost,
        "host": node.host,
        "failed_order": node.failed_order,
        "silent": _is_silent(node, now),
    }
