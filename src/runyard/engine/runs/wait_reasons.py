"""Explains in a sentence why a run waits. Worked out when somebody asks."""

from __future__ import annotations

from runyard.core.attempts import LEASE_S
from runyard.core.errors import Conflict, NotFound
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, EngineContext
from runyard.engine.runs.retries import MARGIN_S
from runyard.engine.state.allocation import QueueEntry, Shortage, Stage
from runyard.engine.state.gang_board import GangBoard
from runyard.engine.state.gpus import VARIABLE
from runyard.engine.state.targets import Target

MOST_NOTED = 20  # runs of the queue whose reasons are noted when they change


def explain_run(context: EngineContext, run: Run) -> str:
    """Return the run's wait reason; empty if it does not wait. Called when somebody asks; changes nothing."""
    if run.status is RunStatus.PREPARING:
        return _missing_nodes(context.gangs, run) or run.waits_for
    if run.status is RunStatus.NOT_RESPONDING:
        return _silent_nodes(context, run) or run.waits_for
    if run.status not in BEFORE_START:
        return ""
    job = context.board.find(run.id)
    return explain(context, job) if job is not None else run.waits_for


def note_wait(context: EngineContext, run_id: str) -> None:
    """Store the wait reason of a queued run, so that its timeline shows it later."""
    job = context.board.find(run_id)
    if job is None or not job.launched:
        return
    try:
        text = explain(context, job)
        context.store.set_status(
            run_id, RunStatus.QUEUED, attempt=job.attempt, expected=[RunStatus.QUEUED], waits_for=text
        )
    except (Conflict, NotFound):
        return  # it went on meanwhile


def note_shortages(context: EngineContext) -> None:
    """Store the wait reason of the first runs in the queue when the kind of shortage changes, such as slot to GPU.

    Called by the loop, without a lock.
    """
    for job, shortage in context.board.list_shortages(now=context.clock.monotonic(), most=MOST_NOTED):
        kind = Shortage.SLOTS if shortage is Shortage.TURN else shortage
        if kind is Shortage.NOTHING or job.fault or job.noted_shortage == kind.value:
            continue
        context.board.update(job.run_id, noted_shortage=kind.value)
        if job.noted_shortage:  # the first was noted when it was submitted
            note_wait(context, job.run_id)
            context.events.on_change(job.run_id)


def _missing_nodes(gangs: GangBoard, run: Run) -> str:
    """Return which nodes of a job the others wait for, since they start together."""
    count = run.spec.distribution.node_count
    missing = gangs.waiting_for(run.id, count) if count > 1 else []
    if not missing:
        return ""
    names = [f"node {rank}" + (f" ({host})" if host else "") for rank, host in missing[:3]]
    rest = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"It waits for {', '.join(names)}{rest} of {count} nodes: they start together when all are prepared."


def _silent_nodes(context: EngineContext, run: Run) -> str:
    """Return which of several nodes is not heard any more."""
    silent = context.gangs.silent_nodes(run.id, context.clock.monotonic())
    names = [f"node {rank}" + (f" ({host})" if host else "") for rank, host, _ in silent[:3]]
    rest = f" and {len(silent) - 3} more" if len(silent) > 3 else ""
    longest = max((seconds for _, _, seconds in silent), default=0.0)
    return f"Nothing was heard of {', '.join(names)}{rest} for {longest:.0f} s." if names else ""


def explain(context: EngineContext, job: QueueEntry) -> str:
    """Return why a queue entry waits, as a sentence."""
    if job.stage is not Stage.WAITING:
        return _at_target(job)
    if job.fault:
        return f"It could not be handed to `{job.target}` ({job.fault}) and is tried again."
    target = context.compute.targets.find(job.workspace, job.target)
    if target is None:
        return f"The compute target `{job.target}` is gone."
    shortage = context.board.shortage_of(job.run_id, now=context.clock.monotonic())
    if shortage is Shortage.TARGET:
        return _cannot_hold(target, job)
    for_gpus = shortage is Shortage.GPUS
    reason = _gpus_taken(context, job) if for_gpus else _slots_taken(context, target, job)
    front = context.board.in_front_of(job, wants_gpus=for_gpus)
    return f"{reason} In front of it: {_names(front)}." if front else f"{reason} It is the next."


def _at_target(job: QueueEntry) -> str:
    if job.stage is Stage.FENCED:
        return (
            f"Attempt {job.attempt} was given up. The next one starts when nothing of it can live any more: with its "
            f"own word, or {LEASE_S + MARGIN_S:.0f} s after its last one when `{job.target}` calls it gone."
        )
    if job.wait_reason:
        return f"It is in the queue of `{job.target}`: {job.wait_reason}"
    if job.stage is Stage.HANDING:
        return f"It is being handed to `{job.target}`."
    return f"Waiting for its supervisor to start on `{job.target}`."


def _cannot_hold(target: Target, job: QueueEntry) -> str:
    if target.is_stopped:
        return f"`{target.name}` is stopped: `runyard compute start {target.name}` lets it run."
    return (
        f"It asks for {job.nodes} nodes and `{target.name}` has {target.slots} at most now: "
        f"`runyard compute update {target.name} --max-nodes {job.nodes}` makes room."
    )


def _slots_taken(context: EngineContext, target: Target, job: QueueEntry) -> str:
    holders = [other for other in context.board.on_target(target.key) if other.stage is not Stage.WAITING]
    taken = len({slot for other in holders for slot in other.slots})
    nodes = "a free node of" if job.nodes == 1 else f"{job.nodes} free nodes of"
    what = nodes if target.is_pool else "a free place on"
    limit = "" if target.slots is None else f" of {target.slots}"
    closed = len(context.compute.backends.closed_slots(target))
    away = f" {closed} cannot be used now, since their machine does not answer." if closed else ""
    return f"It waits for {what} `{target.name}`: {taken}{limit} taken by {_names(holders)}.{away}"


def _gpus_taken(context: EngineContext, job: QueueEntry) -> str:
    total = len(context.compute.gpus.devices())
    holders = [other for other in context.board.jobs() if other.stage is not Stage.WAITING and other.owned_gpus]
    taken = sum(len(other.owned_gpus) for other in holders)
    what = "a free GPU" if job.gpus == 1 else f"{job.gpus} free GPUs"
    return (
        f"It waits for {what}: {taken} of {total} taken by {_names(holders)} "
        f"({VARIABLE}=0 runs without, {VARIABLE}=shared beside others)."
    )


def _names(jobs: list[QueueEntry]) -> str:
    shown = ", ".join(f"`{job.run_id}`" for job in jobs[:3])
    rest = len(jobs) - 3
    return f"{shown} and {rest} more" if rest > 0 else shown or "nobody"
