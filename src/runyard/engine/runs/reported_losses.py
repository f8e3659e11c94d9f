"""Supervisors whose report is not the end of their run: the attempt was given up, or another may follow it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping
from typing import Any

from runyard.compute.base import Cause, JobReport, JobState
from runyard.core.errors import StoreUnavailable
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import Yard, handle_of
from runyard.engine.runs.losses import PREEMPTED, RETRIED, loss_of
from runyard.engine.runs.retries import give_up, go_on, hosts_of, is_all_over, may_follow

logger = logging.getLogger(__name__)

DOUBT_S = 8.0  # an engine tells of a preemption a moment after it has killed the program for it
_KILLS = (signal.SIGTERM, signal.SIGKILL)
_KILLED_SIGNALS = {str(name) for one in _KILLS for name in (one.name, int(one))}
_KILLED_CODES = {128 + one for one in _KILLS}  # how a shell tells of it, and a program that saves its state first
Error = Mapping[str, Any] | None


def is_taken_as_loss(yard: Yard, run: Run, status: RunStatus, error: Error) -> bool:
    """Whether a report is about an attempt that is, or will be, given up. A script that finished has finished.

    Raises:
        StoreUnavailable: that is not known yet; the supervisor reports again in a moment.
    """
    if run.is_fenced:
        return status is not RunStatus.COMPLETED
    if status is not RunStatus.FAILED:
        return False
    return may_follow(run, _code(error)) or _was_killed_by_engine(yard, run, error)


def take_loss(yard: Yard, run: Run, status: RunStatus, error: Error) -> Run:
    """Give the attempt up, where it is not, and go on when all of it is over. The caller holds the run's lock."""
    if not run.is_fenced:
        told = _engine_loss(yard, run)
        run = give_up(yard, run, told if told is not None else error or {})
    if not status.is_terminal or run.is_between_attempts:
        return run
    yard.board.update(run.id, told_end=True)
    return go_on(yard, run) if is_all_over(yard, run) else run


def _code(error: Error) -> str:
    return str((error or {}).get("code") or "")


def _was_killed_by_engine(yard: Yard, run: Run, error: Error) -> bool:
    """Whether the program was killed since its machine was wanted for another job, which only the engine knows."""
    if not _was_killed((error or {}).get("details") or {}) or not may_follow(run, PREEMPTED) or yard.is_local(run):
        return False
    if _engine_loss(yard, run) is not None:
        return True
    job, now = yard.board.find(run.id), yard.clock.monotonic()
    if job is None or (job.doubted_at and now - job.doubted_at >= DOUBT_S):
        return False
    yard.board.update(run.id, doubted_at=job.doubted_at or now)
    raise StoreUnavailable(
        f"Run `{run.id}` cannot end yet.",
        why=f"Its program was killed; `{run.spec.target}` is asked whether it was preempted.",
        hint="Report the end again in a moment.",
    )


def _was_killed(details: Mapping[str, Any]) -> bool:
    return str(details.get("signal") or "") in _KILLED_SIGNALS or details.get("exit_code") in _KILLED_CODES


def _engine_loss(yard: Yard, run: Run) -> Mapping[str, Any] | None:
    """Return the error of an attempt whose engine says that it took its machines away, or lost them."""
    report = _report_of(yard, run)
    if report.state is not JobState.GONE or report.cause not in (Cause.PREEMPTED, Cause.NODE_LOST):
        return None
    loss = loss_of(run, report, hosts_of(yard, run))
    return loss.error if loss.code in RETRIED else None


def _report_of(yard: Yard, run: Run) -> JobReport:
    job = yard.board.find(run.id)
    unknown = JobReport(JobState.UNKNOWN)
    if job is None or yard.is_local(run):
        return unknown
    handle = handle_of(job)
    try:
        return yard.backend(run.workspace, run.spec.target).poll([handle]).get(handle, unknown)
    except Exception:
        # A backend may be somebody else's code; what it cannot tell must not keep a run from ending.
        logger.exception("run %s: its target could not be polled", run.id)
        return unknown
