"""The journal of an ordinary run: what must be remembered of its attempts, in the store, in order.

A sweep keeps its own kinds of events there (`sweeps/journal.py`).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from runyard.core.errors import Conflict
from runyard.core.records import Run
from runyard.engine.context import ComputeState, is_launched
from runyard.store.base import RunStore

JOINED = "joined"


class JoinEvent(TypedDict):
    """A process has the node's part of the attempt for good."""

    event: str  # JOINED
    attempt: int
    rank: int
    incarnation: str
    host: str
    address: str


def append_event(store: RunStore, run_id: str, event: Mapping[str, Any]) -> None:
    """Append one event to the run's journal. It is durable when this returns; two threads may append at once."""
    while True:
        known = len(store.list_events(run_id))
        try:
            store.append_events(run_id, [event], after=known)
            return
        except Conflict:
            continue  # another thread was faster


@dataclass(frozen=True)
class RunHost:
    """A machine of a run's attempt."""

    attempt: int
    rank: int
    host: str
    address: str


def list_joins(store: RunStore, run_id: str, attempt: int) -> dict[int, JoinEvent]:
    """Return the `joined` event of each node of the attempt, by rank."""
    return {event["rank"]: event for event in _joins(store, run_id) if event["attempt"] == attempt}


def list_hosts(store: RunStore, compute: ComputeState, run: Run) -> list[RunHost]:
    """Return the machines of all attempts of a run, in their order."""
    if run.attempt == 0 or not is_launched(run):
        return []
    if compute.is_local(run):
        return [RunHost(run.attempt, rank=0, host=socket.gethostname(), address="")]
    hosts = [
        RunHost(event["attempt"], event["rank"], event.get("host", ""), event.get("address", ""))
        for event in _joins(store, run.id)
    ]
    return sorted(hosts, key=lambda one: (one.attempt, one.rank))


def _joins(store: RunStore, run_id: str) -> list[JoinEvent]:
    return cast("list[JoinEvent]", [event for event in store.list_events(run_id) if event.get("event") == JOINED])
