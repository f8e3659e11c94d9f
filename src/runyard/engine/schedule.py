"""Who starts next, and what the others wait for."""

from __future__ import annotations

import logging

from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.board import Job, Stage
from runyard.engine.handover import hand_over
from runyard.engine.yard import BEFORE_START, Yard, is_launched

logger = logging.getLogger(__name__)


def launch_now(yard: Yard, run: Run) -> None:
    """Start a run that was just created, when its target has a place; otherwise it stands in the queue."""
    if yard.board.take(run.id, limit=yard.settings.local_runs) is not None:
        _hand_over(yard, run.id)
    elif run.status is RunStatus.NOT_STARTED:
        with yard.locks(run.id):
            job = yard.board.find(run.id)
            if job is not None and job.stage is Stage.WAITING and job.attempt == 0:
                yard.store.set_status(run.id, RunStatus.QUEUED, waits_for=explain(yard, job))


def start_waiting(yard: Yard) -> None:
    """Start every waiting run that has a place now, oldest first."""
    while True:
        job = yard.board.take_next(limit=yard.settings.local_runs, now=yard.clock.monotonic())
        if job is None:
            return
        _hand_over(yard, job.run_id)


def recover(yard: Yard) -> None:
    """Fill the board from the store after a start; every lease begins anew."""
    now = yard.clock.monotonic()
    spooled = set(yard.spool.list_runs())
    for run in yard.store.list_unfinished():
        waits = run.status in BEFORE_START and (run.id in spooled or (is_launched(run) and run.attempt == 0))
        if waits:
            spooled.discard(run.id)
        if waits or run.attempt:
            stage = Stage.WAITING if waits else Stage.HANDED
            silent = run.status is RunStatus.NOT_RESPONDING
            yard.board.add(
                Job(run.id, run.spec.target, is_launched(run), stage, attempt=run.attempt, heard=now, silent=silent)
            )
    for run_id in spooled:
        yard.spool.remove(run_id)


def explain_run(yard: Yard, run: Run) -> str:
    """Return what a queued run waits for, in words; empty when it does not wait."""
    if run.status not in BEFORE_START:
        return ""
    job = yard.board.find(run.id)
    return explain(yard, job) if job is not None else run.waits_for


def explain(yard: Yard, job: Job) -> str:
    if job.stage is not Stage.WAITING:
        return f"It was handed to `{job.target}`; its supervisor is starting."
    if job.fault:
        return f"It could not be handed to `{job.target}` ({job.fault}) and is tried again."
    running = yard.board.running(job.target)
    front = yard.board.in_front_of(job.run_id)
    limit = yard.settings.local_runs
    text = f"It waits for a free place on `{job.target}`: {len(running)} of {limit} taken by {_names(running)}."
    return f"{text} In front of it: {_names(front)}." if front else f"{text} It is the next."


def _names(jobs: list[Job]) -> str:
    shown = ", ".join(f"`{job.run_id}`" for job in jobs[:3])
    rest = len(jobs) - 3
    return f"{shown} and {rest} more" if rest > 0 else shown or "nobody"


def _hand_over(yard: Yard, run_id: str) -> None:
    try:
        hand_over(yard, run_id)
    except Exception:
        # The store may be full or locked: the run is committed, so it waits and is tried again.
        logger.exception("run %s: not started, will be tried again", run_id)
        yard.board.update(
            run_id, stage=Stage.WAITING, fault="the server's store is not available", retry_at=_soon(yard)
        )
        yard.wake.set()


def _soon(yard: Yard) -> float:
    return yard.clock.monotonic() + 2.0
