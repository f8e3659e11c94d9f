"""Decides which waiting run starts next, and rebuilds the queue when the server starts."""

from __future__ import annotations

from dataclasses import replace

from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, EngineContext, is_launched
from runyard.engine.runs.dispatch import dispatch, keeps_spool, try_again_soon
from runyard.engine.runs.requirements import dispatched_entry, waiting_entry
from runyard.engine.runs.wait_reasons import explain
from runyard.engine.state.allocation import QueueEntry, Stage


def launch_now(context: EngineContext, run: Run) -> None:
    """Start a run that was just created if its target has room; otherwise show it as queued. Called by `submit`."""
    if context.board.take(run.id, now=context.clock.monotonic()) is not None:
        _hand_over(context, run.id)
    elif run.status is RunStatus.NOT_STARTED:
        with context.locks.of_run(run.id):
            job = context.board.find(run.id)
            if job is not None and job.stage is Stage.WAITING and job.attempt == 0:
                context.store.set_status(run.id, RunStatus.QUEUED, waits_for=explain(context, job))


def start_waiting(context: EngineContext) -> None:
    """Start every waiting run that has room now, oldest first. Called by the loop, without a lock."""
    while True:
        job = context.board.take_next(now=context.clock.monotonic())
        if job is None:
            return
        _hand_over(context, job.run_id)


def recover(context: EngineContext) -> None:
    """Rebuild the board from the store and the spool. Every lease begins anew.

    Called once, at the start, before any request.
    """
    now = context.clock.monotonic()
    spooled = set(context.spool.list_runs())
    for run in context.store.list_unfinished():
        job = _recovered(context, run, is_spooled=run.id in spooled)
        if job is not None:
            context.board.add(replace(job, last_heard_at=now, silent=run.status is RunStatus.NOT_RESPONDING))
            if job.stage is Stage.WAITING or keeps_spool(context.compute, run):
                spooled.discard(run.id)
            if job.stage is Stage.FENCED:
                context.release(run)
    for run_id in spooled - set(context.sweeps):  # a sweep's is read for each of its children
        _drop_spooled(context, run_id)


def _recovered(context: EngineContext, run: Run, *, is_spooled: bool) -> QueueEntry | None:
    """Return where a killed server was with a run; None for one that nobody has in hand."""
    if run.is_fenced and not run.is_between_attempts:
        return replace(dispatched_entry(context, run), stage=Stage.FENCED)
    if run.is_between_attempts or _waits(context, run, is_spooled=is_spooled):
        return waiting_entry(context, run)
    return dispatched_entry(context, run) if run.attempt else None


def _waits(context: EngineContext, run: Run, *, is_spooled: bool) -> bool:
    """Whether it is not certain that the run's target has its attempt."""
    if run.status not in BEFORE_START:
        return False
    if run.attempt == 0:
        return is_spooled or is_launched(run)
    spooled = context.spool.read(run.id) if is_spooled else None
    return spooled is not None and spooled.handed != run.attempt


def _drop_spooled(context: EngineContext, run_id: str) -> None:
    """Remove what is left of a run that ended; its cluster may not have been told."""
    run = context.store.find_run(run_id)
    if run is None or not run.status.is_terminal:
        context.spool.remove(run_id)
    else:
        context.release(run, done=lambda: context.spool.remove(run_id))


def _hand_over(context: EngineContext, run_id: str) -> None:
    try:
        dispatch(context, run_id)
    except Exception:
        # The store may be full or locked: the run is committed, so it waits and is tried again.
        try_again_soon(context, run_id)
