"""Who starts next, and what the others wait for."""

from __future__ import annotations

from dataclasses import replace

from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, Yard, is_launched
from runyard.engine.runs.dispatch import hand_over, keeps_spool, try_again_soon
from runyard.engine.runs.requirements import handed_job, waiting_job
from runyard.engine.runs.wait_reasons import explain
from runyard.engine.state.allocation import Job, Stage


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
        job = _recovered(yard, run, is_spooled=run.id in spooled)
        if job is not None:
            yard.board.add(replace(job, heard=now, silent=run.status is RunStatus.NOT_RESPONDING))
            if job.stage is Stage.WAITING or keeps_spool(yard, run):
                spooled.discard(run.id)
            if job.stage is Stage.FENCED:
                yard.give_back(run)
    for run_id in spooled - set(yard.sweeps):  # a sweep's is read for each of its children
        _drop_spooled(yard, run_id)


def _recovered(yard: Yard, run: Run, *, is_spooled: bool) -> Job | None:
    """Return where a killed server was with a run; None for one that nobody has in hand."""
    if run.is_fenced and not run.is_between_attempts:
        return replace(handed_job(yard, run), stage=Stage.FENCED)
    if run.is_between_attempts or _waits(yard, run, is_spooled=is_spooled):
        return waiting_job(yard, run)
    return handed_job(yard, run) if run.attempt else None


def _waits(yard: Yard, run: Run, *, is_spooled: bool) -> bool:
    """Whether it is not certain that the run's target has its attempt."""
    if run.status not in BEFORE_START:
        return False
    if run.attempt == 0:
        return is_spooled or is_launched(run)
    spooled = yard.spool.read(run.id) if is_spooled else None
    return spooled is not None and spooled.handed != run.attempt


def _drop_spooled(yard: Yard, run_id: str) -> None:
    """Remove what is left of a run that ended; its engine may not have been told."""
    run = yard.store.find_run(run_id)
    if run is None or not run.status.is_terminal:
        yard.spool.remove(run_id)
    else:
        yard.give_back(run, done=lambda: yard.spool.remove(run_id))


def _hand_over(yard: Yard, run_id: str) -> None:
    try:
        hand_over(yard, run_id)
    except Exception:
        # The store may be full or locked: the run is committed, so it waits and is tried again.
        try_again_soon(yard, run_id)
