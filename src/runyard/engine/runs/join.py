"""Nodes of a cluster: each joins an attempt once, then tells the others what it knows through the server.

A node's message is a heartbeat too: every node has a lease of its own, and node 0's renews the run's.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace

from runyard.core.compute import LOCAL
from runyard.core.errors import Conflict, InvalidArgument, SubmissionLost
from runyard.core.formats.documents import NodeFacts, NodeNews, RunError
from runyard.core.records import Run
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.engine.context import EngineContext, is_launched
from runyard.engine.runs.control import fail
from runyard.engine.runs.dispatch import job_spec_of, spooled_of
from runyard.engine.runs.events import JOINED, append_event, list_joins
from runyard.engine.runs.liveness import note_heartbeat

logger = logging.getLogger(__name__)

_INCARNATION = re.compile(r"[0-9a-f]{16,64}")
_LONGEST_NAME = 255
MOST_FACTS = 16


@dataclass(frozen=True)
class Join:
    """A node's process says who it is. `incarnation` is random: the same again is the same process."""

    attempt: int
    incarnation: str
    host: str = ""
    address: str = ""


def join(context: EngineContext, run_id: str, rank: int, said: Join) -> JobSpec:
    """Give the node its job. The same process may ask again; a second process for the same node gets nothing.

    Called by request threads; it takes the run's lock.

    Raises:
        Conflict: another process has this node's part, or the attempt is over.
        InvalidArgument: the job has no such node.
        SubmissionLost: what the run needs to start is gone; the run is ended with that error.
    """
    try:
        return _join(context, run_id, rank, said)
    except SubmissionLost as error:
        fail(context, run_id, {"code": error.code, "message": str(error)})
        raise


def _join(context: EngineContext, run_id: str, rank: int, said: Join) -> JobSpec:
    if not _INCARNATION.fullmatch(said.incarnation) or max(len(said.host), len(said.address)) > _LONGEST_NAME:
        raise InvalidArgument("A node must say who it is: an incarnation of 16 to 64 hex digits, its host and address.")
    with context.locks.of_run(run_id):
        run = context.store.get_run(run_id)
        _check_join(context, run, rank, said)
        known = list_joins(context.store, run_id, said.attempt).get(rank)
        if known is not None and known["incarnation"] != said.incarnation:
            raise Conflict(
                f"Node {rank} of run `{run_id}` is in the hands of another process, on {known.get('host') or '?'}.",
                why="Each node's part of an attempt is started once.",
            )
        spooled = spooled_of(context.spool, context.compute.targets, run)
        if known is None:
            event = {"event": JOINED, "attempt": said.attempt, "rank": rank, "incarnation": said.incarnation}
            append_event(context.store, run_id, {**event, "host": said.host, "address": said.address})
            logger.info("run %s: node %d of attempt %d is on %s", run_id, rank, said.attempt, said.host or "?")
        note_heartbeat(context, run, said.attempt)
        if run.spec.distribution.node_count > 1:  # a single one speaks for the run itself
            now = context.clock.monotonic()
            context.gangs.add(run_id, said.attempt, rank, now, host=said.host, incarnation=said.incarnation)
        job = job_spec_of(context, run, "", spooled)
    return replace(job, node_rank=rank, incarnation=said.incarnation, submitter={}, slots=[], devices=[])


def _check_join(context: EngineContext, run: Run, rank: int, said: Join) -> None:
    target = context.compute.targets.find(run.workspace, run.spec.target)
    if not is_launched(run) or target is None or target.backend == LOCAL:
        raise Conflict(f"Run `{run.id}` is not one that nodes of a cluster take part in.")
    if run.status.is_terminal or run.is_fenced or run.attempt != said.attempt:
        raise Conflict(
            f"Run `{run.id}` is at attempt {run.attempt} ({run.status}); nothing of attempt {said.attempt} may start.",
            why="It ended, or a later attempt has taken over.",
        )
    if not 0 <= rank < run.spec.distribution.node_count:
        raise InvalidArgument(f"Run `{run.id}` has {run.spec.distribution.node_count} nodes; there is no node {rank}.")


@dataclass(frozen=True)
class NodeWord:
    """A node's message. `facts` are all of its own, None: unchanged. The node knows the board as of version `since`."""

    attempt: int
    incarnation: str = ""
    facts: NodeFacts | None = None
    since: str = ""
    wait_s: float = 0.0


@dataclass(frozen=True)
class GangAnswer:
    """What a node is answered: the desired state of the run, and what the other nodes said."""

    desired: str | None
    desired_error: RunError | None
    attempt: int
    status: RunStatus
    epoch: str  # another one: the server was restarted, and knows nothing
    version: str  # of this answer; the node asks for news since then
    nodes: list[NodeNews]


def hear_node(context: EngineContext, run_id: str, rank: int, said: NodeWord) -> GangAnswer:
    """Take a node's message, which is a heartbeat too, and return the answer.

    Called by request threads, without the run's lock. It may be repeated.

    Raises:
        Conflict: the message is from another process than the one that joined.
        InvalidArgument: the job has no such node, or there are too many facts.
    """
    run = context.store.get_run(run_id)
    _check_word(run, rank, said)
    if not run.status.is_terminal and run.attempt == said.attempt:
        now = context.clock.monotonic()
        _know(context, run, rank, now)
        if not context.gangs.is_of(run.id, rank, said.incarnation):
            raise Conflict(f"Node {rank} of run `{run.id}` is in the hands of another process.")
        context.gangs.hear(run.id, run.attempt, rank, now, said.facts)
        if rank == 0 or run.status is RunStatus.NOT_RESPONDING:
            run = note_heartbeat(context, run, said.attempt)
    return _answer(context, run, said.attempt)


def look(context: EngineContext, run_id: str, attempt: int) -> GangAnswer:
    """Return what a waiting node of the attempt is answered now. Changes nothing."""
    return _answer(context, context.store.get_run(run_id), attempt)


def _check_word(run: Run, rank: int, said: NodeWord) -> None:
    if not 0 <= rank < run.spec.distribution.node_count:
        raise InvalidArgument(f"Run `{run.id}` has {run.spec.distribution.node_count} nodes; there is no node {rank}.")
    if said.facts is not None and len(said.facts) > MOST_FACTS:
        raise InvalidArgument(f"A node says at most {MOST_FACTS} facts, not {len(said.facts)}.")


def _know(context: EngineContext, run: Run, rank: int, now: float) -> None:
    """Begin the leases of all nodes that joined: after a restart of the server nobody else knows of a silent one."""
    if context.gangs.knows(run.id, run.attempt, rank):
        return
    for joined, event in list_joins(context.store, run.id, run.attempt).items():
        host, incarnation = str(event.get("host") or ""), str(event["incarnation"])
        context.gangs.add(run.id, run.attempt, joined, now, host=host, incarnation=incarnation)


def _answer(context: EngineContext, run: Run, attempt: int) -> GangAnswer:
    is_over, is_old = run.status.is_terminal, run.attempt != attempt
    counted = f"{context.gangs.epoch}.{context.gangs.version(run.id)}"
    return GangAnswer(
        desired=run.desired,
        desired_error=run.desired_error,
        attempt=run.due_attempt,
        status=run.status,
        epoch=context.gangs.epoch,
        version=f"{counted}.{run.due_attempt}.{run.desired or ''}.{'over' if is_over else ''}",
        nodes=[] if is_old else context.gangs.show(run.id, context.clock.monotonic()),
    )
