"""Nodes of a job that several supervisors run: each says what it knows and hears what the others do.

A word is a heartbeat as well: every node has a lease of its own, and node 0's word is the run's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import Yard
from runyard.engine.runs.events import list_joins
from runyard.engine.runs.liveness import hear

MOST_FACTS = 16


@dataclass(frozen=True)
class NodeWord:
    """What a node says. `facts` are all of its own, None: as before. It knows the board as of version `since`."""

    attempt: int
    incarnation: str = ""
    facts: dict[str, Any] | None = None
    since: str = ""
    wait_s: float = 0.0


def hear_node(yard: Yard, run_id: str, rank: int, said: NodeWord) -> dict[str, Any]:
    """Take a node's word and return the answer, as it is now.

    Raises:
        Conflict: the word is from another process than the one that has the node's part.
        InvalidArgument: the job has no such node.
    """
    run = yard.store.get_run(run_id)
    _check(run, rank, said)
    if not run.status.is_terminal and run.attempt == said.attempt:
        now = yard.clock.monotonic()
        _know(yard, run, rank, now)
        if not yard.gangs.is_of(run.id, rank, said.incarnation):
            raise Conflict(f"Node {rank} of run `{run.id}` is in the hands of another process.")
        yard.gangs.hear(run.id, run.attempt, rank, now, said.facts)
        if rank == 0 or run.status is RunStatus.NOT_RESPONDING:
            run = hear(yard, run, said.attempt)
    return _answer(yard, run, said.attempt)


def look(yard: Yard, run_id: str, attempt: int) -> dict[str, Any]:
    """Return what a node of the attempt that waits is answered now."""
    return _answer(yard, yard.store.get_run(run_id), attempt)


def _check(run: Run, rank: int, said: NodeWord) -> None:
    if not 0 <= rank < run.spec.distribution.node_count:
        raise InvalidArgument(f"Run `{run.id}` has {run.spec.distribution.node_count} nodes; there is no node {rank}.")
    if said.facts is not None and len(said.facts) > MOST_FACTS:
        raise InvalidArgument(f"A node says at most {MOST_FACTS} facts, not {len(said.facts)}.")


def _know(yard: Yard, run: Run, rank: int, now: float) -> None:
    """Begin the leases of all nodes that joined: after a restart of the server nobody else knows of a silent one."""
    if yard.gangs.knows(run.id, run.attempt, rank):
        return
    for joined, event in list_joins(yard, run.id, run.attempt).items():
        host, incarnation = str(event.get("host") or ""), str(event["incarnation"])
        yard.gangs.add(run.id, run.attempt, joined, now, host=host, incarnation=incarnation)


def _answer(yard: Yard, run: Run, attempt: int) -> dict[str, Any]:
    is_over, is_old = run.status.is_terminal, run.attempt != attempt
    counted = f"{yard.gangs.epoch}.{yard.gangs.version(run.id)}"
    return {
        "desired": run.desired,
        "desired_error": run.desired_error,
        "attempt": run.due_attempt,
        "status": run.status,
        "epoch": yard.gangs.epoch,
        "version": f"{counted}.{run.due_attempt}.{run.desired or ''}.{'over' if is_over else ''}",
        "nodes": [] if is_old else yard.gangs.show(run.id, yard.clock.monotonic()),
    }
