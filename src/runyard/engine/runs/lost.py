"""The engine calls a job gone whose run has no end: the end, the next attempt, or a moment's patience.

On this machine gone is proof. Elsewhere it is an engine's opinion: a node that it lost sight of may run on. So a run
whose supervisor still speaks is told to stop, and one that is silent is ended when it must have stopped by itself.
"""

from __future__ import annotations

import logging
from typing import Any

from runyard.compute.base import Cause, JobReport
from runyard.core.leases import LEASE_S
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import Yard, handle_of
from runyard.engine.runs.losses import Loss, loss_of
from runyard.engine.runs.retries import MARGIN_S, give_up, go_on, hosts_of, is_over, may_follow, never_ran
from runyard.engine.runs.streams import close_streams
from runyard.engine.state.job import Job

logger = logging.getLogger(__name__)

KILLED_S = 10.0  # two heartbeats: an engine that saw or made the end of a job has no process of it any more
MACHINE_GONE = (Cause.NODE_LOST, Cause.PREEMPTED)
# How long a supervisor elsewhere must be silent before what its engine says is believed.
QUIET_S = {
    Cause.NODE_LOST: LEASE_S + MARGIN_S,
    Cause.PREEMPTED: LEASE_S + MARGIN_S,
    Cause.UNKNOWN: LEASE_S,
}


def lose(yard: Yard, job: Job, report: JobReport, now: float) -> None:
    """Act on a job of which its engine found nothing, twice in a row, unless the run's end arrived meanwhile."""
    with yard.locks(job.run_id):
        run = yard.store.get_run(job.run_id)
        current = yard.board.find(job.run_id)
        if run.status.is_terminal:
            return yard.ended(run)
        if current is None or current.heard != job.heard or run.attempt != job.attempt:
            return
        if run.is_fenced:
            if is_over(yard, job, now):
                go_on(yard, run)
            return
        loss = loss_of(run, report, hosts_of(yard, run))
        has_begun = yard.is_local(run) or report.cause not in MACHINE_GONE or not never_ran(yard, job)
        if not _is_believed(yard, run, job, report.cause, now):
            _prepare_for(yard, run, job, report.cause, loss)
        elif may_follow(run, loss.code, has_begun=has_begun):
            _follow(yard, give_up(yard, run, loss.error, has_begun=has_begun), job, now)
        else:
            _end(yard, run, loss)


def _is_believed(yard: Yard, run: Run, job: Job, cause: Cause, now: float) -> bool:
    if yard.is_local(run):
        return True
    if never_ran(yard, job):
        return True
    return now - job.heard >= QUIET_S.get(cause, KILLED_S)


def _prepare_for(yard: Yard, run: Run, job: Job, cause: Cause, loss: Loss) -> None:
    """See to it that what may live stops: by giving the attempt up, or by ending the run where it is the last."""
    if not (job.engine_gone or cause in MACHINE_GONE):
        return
    if may_follow(run, loss.code):
        give_up(yard, run, loss.error)
    elif run.desired is None:
        logger.warning("run %s: its engine has lost it, so it shall end", run.id)
        yard.store.set_desired(run.id, "fail", loss.error)
        yard.backend(run.workspace, run.spec.target).cancel(handle_of(job))
        yard.gangs.touch(run.id)


def _follow(yard: Yard, fenced: Run, job: Job, now: float) -> None:
    if is_over(yard, job, now):
        go_on(yard, fenced)


def _end(yard: Yard, run: Run, loss: Loss) -> None:
    status = loss.status
    error: dict[str, Any] | None = loss.error
    if run.desired == "cancel":
        status, error = RunStatus.CANCELED, None
    elif run.desired == "fail":
        status, error = RunStatus.FAILED, run.desired_error or loss.error
    close_streams(yard, run)
    ended = yard.store.set_status(run.id, status, attempt=run.attempt, expected=[run.status], error=error, waits_for="")
    logger.warning("run %s: nothing of it lives any more, %s", run.id, ended.status)
    yard.ended(ended)
