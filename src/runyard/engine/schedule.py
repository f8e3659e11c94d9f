"""Who starts next, and what the others wait for."""

from __future__ import annotations

import logging
from dataclasses import replace

from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.handover import hand_over
from runyard.engine.job import Stage
from runyard.engine.needs import handed_job, waiting_job
from runyard.engine.waits import explain
from runyard.engine.yard import BEFORE_START, Yard, is_launched

logger = logging.getLogger(__name__)


def launch_now(yard: Yard, run: Run) -> None:
    """Start a run that was just created, when its target has a place; otherwise it stands in the queue."""
    if yard.board.take(run.id, now=yard.clock.monotonic()) is not None:
        _hand_over(yard, run.id)
    elif run.status is RunStatus.NOT_STARTED:
        with yard.locks(run.id):
            job = yard.board.find(run.id)
            if job is not None and job.stage is Stage.WAITING and job.attempt == 0:
                yard.store.set_status(run.id, RunStatus.QUEUED, waits_for=explain(yard, job))


def start_waiting(yard: Yard) -> None:
    """Start every waiting run that has a place now, oldest first."""
    while True:
        job = yard.board.take_next(now=yard.clock.monotonic())
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
            silent = run.status is RunStatus.NOT_RESPONDING
            job = waiting_job(yard, run) if waits else handed_job(yard, run)
            yard.board.add(replace(job, heard=now, silent=silent))
    for run_id in spooled - set(yard.sweeps):  # a sweep's is read for each of its children
        yard.spool.remove(run_id)


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
