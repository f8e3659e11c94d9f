"""Watches started runs: silence is shown as NotResponding, and a run is lost only with proof.

Leases are measured by this process's monotonic clock from the moment a message was received. They begin anew when the
server starts, and when it finds that it was itself stopped for a while.

A job may be gone before its run has reported an end. On this machine that is proof. Elsewhere it is the cluster's
opinion: a node that it lost sight of may run on. So a run whose supervisor still speaks is told to stop, and a silent
one is ended once its own lease must have stopped it.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.core.attempts import LEASE_S
from runyard.core.errors import Conflict
from runyard.core.formats.documents import RunError
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, EngineContext, handle_of
from runyard.engine.runs.retries import (
    MARGIN_S,
    LossReason,
    fence,
    hosts_of,
    is_over,
    loss_reason,
    may_follow,
    never_ran,
    start_next,
    start_next_when_all_reported,
)
from runyard.engine.runs.streams import close_streams
from runyard.engine.runs.wait_reasons import explain_run, note_wait
from runyard.engine.state.allocation import QueueEntry, Stage
from runyard.engine.state.backends import Backends, InstanceKey

logger = logging.getLogger(__name__)

KILLED_S = 10.0  # two heartbeats: a cluster that saw or made the end of a job has no process of it any more
MACHINE_GONE = (EndCause.NODE_LOST, EndCause.PREEMPTED)
# How long a supervisor elsewhere must be silent before what its cluster says is believed.
QUIET_S = {
    EndCause.NODE_LOST: LEASE_S + MARGIN_S,
    EndCause.PREEMPTED: LEASE_S + MARGIN_S,
    EndCause.UNKNOWN: LEASE_S,
}
SILENT_AFTER_S = LEASE_S
POLL_AFTER_S = 2.0  # heartbeats come every 5 s, so a quiet healthy job is polled too: it costs a look at a lock file
ADOPT_AGAIN_S = 5.0
NOT_KNOWN = JobReport(JobState.UNKNOWN)
_NUMBER = re.compile(r"\d+(st|nd|rd|th)?")
NOT_HEARD = f"Nothing was heard of its supervisor for {SILENT_AFTER_S:.0f} s; its target has not called it gone."
GONE_POLLS = 2  # one look may fall between a supervisor's last word and our hearing it


def handle_lost(context: EngineContext, job: QueueEntry, report: JobReport, now: float) -> None:
    """Handle a job that the cluster reports gone before the run reported its end: retry, end the run, or wait.

    Called by the loop after two such polls in a row; it takes the run's lock and does nothing if the end has arrived
    meanwhile. It may be repeated.
    """
    with context.locks.of_run(job.run_id):
        run = context.store.get_run(job.run_id)
        current = context.board.find(job.run_id)
        if run.status.is_terminal:
            return context.ended(run)
        if current is None or current.last_heard_at != job.last_heard_at or run.attempt != job.attempt:
            return
        if run.is_fenced:
            if is_over(context, job, now):
                start_next(context, run)
            return
        loss = loss_reason(run, report, hosts_of(context.store, context.compute, run))
        has_begun = (
            context.compute.is_local(run) or report.cause not in MACHINE_GONE or not never_ran(context.store, job)
        )
        if not _is_believed(context, run, job, report.cause, now):
            _prepare_for(context, run, job, report.cause, loss)
        elif may_follow(run, loss.code, has_begun=has_begun):
            _follow(context, fence(context, run, loss.error, has_begun=has_begun), job, now)
        else:
            _end(context, run, loss)


def _is_believed(context: EngineContext, run: Run, job: QueueEntry, cause: EndCause, now: float) -> bool:
    if context.compute.is_local(run):
        return True
    if never_ran(context.store, job):
        return True
    return now - job.last_heard_at >= QUIET_S.get(cause, KILLED_S)


def _prepare_for(context: EngineContext, run: Run, job: QueueEntry, cause: EndCause, loss: LossReason) -> None:
    """See to it that what may live stops: by giving the attempt up, or by ending the run where it is the last."""
    if not (job.cluster_gone or cause in MACHINE_GONE):
        return
    if may_follow(run, loss.code):
        fence(context, run, loss.error)
    elif run.desired is None:
        logger.warning("run %s: its cluster has lost it, so it shall end", run.id)
        context.store.set_desired(run.id, "fail", loss.error)
        context.compute.backend(run.workspace, run.spec.target).cancel(handle_of(job))
        context.gangs.touch(run.id)


def _follow(context: EngineContext, fenced: Run, job: QueueEntry, now: float) -> None:
    if is_over(context, job, now):
        start_next(context, fenced)


def _end(context: EngineContext, run: Run, loss: LossReason) -> None:
    status = loss.status
    error: RunError | None = loss.error
    if run.desired == "cancel":
        status, error = RunStatus.CANCELED, None
    elif run.desired == "fail":
        status, error = RunStatus.FAILED, run.desired_error or loss.error
    close_streams(context.store, context.artifacts, run)
    ended = context.store.set_status(
        run.id, status, attempt=run.attempt, expected=[run.status], error=error, waits_for=""
    )
    logger.warning("run %s: nothing of it lives any more, %s", run.id, ended.status)
    context.ended(ended)


class Verdict(Enum):
    """What to do about a job after a poll."""

    FINE = "fine"
    ADOPT = "adopt"
    SILENT = "silent"
    GONE = "gone"
    LOST = "lost"


def judge_liveness(job: QueueEntry, state: JobState, now: float) -> Verdict:
    """Return what to do about a started job that has been quiet for a moment. Pure."""
    if state is JobState.GONE:
        return Verdict.LOST if job.gone_polls + 1 >= GONE_POLLS else Verdict.GONE
    if state is JobState.ORPHANED and now - job.adopted_at >= ADOPT_AGAIN_S:
        return Verdict.ADOPT
    if state is not JobState.WAITING and now - job.last_heard_at >= SILENT_AFTER_S and not job.silent:
        return Verdict.SILENT
    return Verdict.FINE


def poll_jobs(context: EngineContext) -> None:
    """Poll the backends about every job that has been quiet for a moment, once per backend, and act on the answers.

    Called by the loop, without a lock.
    """
    now = context.clock.monotonic()
    quiet: dict[InstanceKey, list[QueueEntry]] = defaultdict(list)
    for job in context.board.jobs():
        if _is_asked_for(context, job, now):
            quiet[context.compute.backends.key_of(context.compute.targets.find(job.workspace, job.target))].append(job)
        if job.stage is Stage.HANDED and not job.silent and context.gangs.silent_nodes(job.run_id, now):
            _show_silence(context, job)
    for backend, jobs in quiet.items():
        reports = _poll(context.compute.backends, backend, jobs)
        for job in jobs:
            report = reports.get(handle_of(job), NOT_KNOWN)
            verdict = judge_liveness(job, report.state, now)
            try:
                _note_wait(context, job, report)
                _act(context, job, verdict, report, now)
            except Exception:
                # One job that cannot be looked after must not hide the others; it is looked at again in a second.
                logger.exception("run %s: could not act on `%s`", job.run_id, verdict.value)


def note_heartbeat(context: EngineContext, run: Run, attempt: int) -> Run:
    """Renew the lease of the run's attempt. A run shown as NotResponding gets its earlier status back.

    Called by request threads with every message of a supervisor, with or without the run's lock. It may be repeated.
    """
    # On this machine a word proves that the job lives. Elsewhere a cluster may lose a node whose supervisor goes on.
    context.board.hear(run.id, attempt, context.clock.monotonic(), proves_life=context.compute.is_local(run))
    if run.status is not RunStatus.NOT_RESPONDING or run.attempt != attempt:
        return run
    if context.gangs.silent_nodes(run.id, context.clock.monotonic()):
        return run  # another node of it still is
    try:
        return context.store.set_status(
            run.id, _before_silence(run), attempt=attempt, expected=[RunStatus.NOT_RESPONDING]
        )
    except Conflict:
        return context.store.get_run(run.id)


def note_cluster_report(context: EngineContext, run: Run) -> None:
    """Note that the cluster's process beside the supervisor has ended, and have the cluster polled at once."""
    job = context.board.find(run.id)
    if job is not None and job.attempt == run.attempt and not job.cluster_gone:
        logger.warning("run %s: the cluster's process beside its supervisor is gone", run.id)
        context.board.update(run.id, cluster_gone=True)
        context.events.wake.set()


def _is_asked_for(context: EngineContext, job: QueueEntry, now: float) -> bool:
    if job.stage is Stage.FENCED:
        return True
    heard = min(
        job.last_heard_at, context.gangs.first_heard(job.run_id, now)
    )  # one node that talks says nothing about the others
    return job.stage is Stage.HANDED and (job.cluster_gone or now - heard >= POLL_AFTER_S)


def _poll(backends: Backends, backend: InstanceKey, jobs: list[QueueEntry]) -> Mapping[JobHandle, JobReport]:
    try:
        return backends.get(backend).poll([handle_of(job) for job in jobs])
    except Exception:
        # A backend may be somebody else's code; what it cannot tell stays unknown, which ends nothing.
        logger.exception("backend %s could not be polled", backend[0])
        return {}


def _note_wait(context: EngineContext, job: QueueEntry, report: JobReport) -> None:
    """Keep what the cluster says that a job in its queue waits for."""
    why = report.why if report.state is JobState.WAITING else ""
    if report.state is not JobState.UNKNOWN and why != job.wait_reason:
        context.board.update(job.run_id, wait_reason=why)
        if _NUMBER.sub("", why) != _NUMBER.sub("", job.wait_reason):  # a place in a long queue changes all the time
            note_wait(context, job.run_id)
        context.events.on_change(job.run_id)


def _before_silence(run: Run) -> RunStatus:
    if run.desired == "cancel":
        return RunStatus.CANCEL_REQUESTED
    for phase in reversed(run.timeline):
        if phase.status not in (RunStatus.NOT_RESPONDING, *BEFORE_START):
            return phase.status
    return RunStatus.PREPARING


def _act(context: EngineContext, job: QueueEntry, verdict: Verdict, report: JobReport, now: float) -> None:
    if job.node0_ended and start_next_when_all_reported(context, job):
        return
    if verdict is Verdict.ADOPT:
        logger.info("run %s: its supervisor is gone, adopting it", job.run_id)
        context.board.update(job.run_id, adopted_at=now, gone_polls=0)
        context.compute.backend(job.workspace, job.target).adopt(handle_of(job))
    elif verdict is Verdict.GONE:
        context.board.update(job.run_id, gone_polls=job.gone_polls + 1)
    elif verdict is Verdict.LOST:
        handle_lost(context, job, report, now)
    elif verdict is Verdict.SILENT and job.stage is Stage.HANDED:
        _show_silence(context, job)
    elif job.gone_polls and report.state is not JobState.UNKNOWN:
        context.board.update(job.run_id, gone_polls=0)


def _show_silence(context: EngineContext, job: QueueEntry) -> None:
    run = context.store.get_run(job.run_id)
    if run.status.is_terminal:
        context.ended(run)
        return
    current = context.board.find(job.run_id)
    if current is None or current.last_heard_at != job.last_heard_at or run.status is RunStatus.NOT_RESPONDING:
        return
    try:
        silent = RunStatus.NOT_RESPONDING
        why = explain_run(context, replace(run, status=silent, waits_for=NOT_HEARD))
        context.store.set_status(job.run_id, silent, attempt=job.attempt, expected=[run.status], waits_for=why)
    except Conflict:
        return
    context.board.update(job.run_id, silent=True)
    logger.warning("run %s: silent for %.0f s", job.run_id, SILENT_AFTER_S)
    context.events.on_change(job.run_id)
