"""Is every job still there? Silence is shown as silence; a run is lost only with proof.

Leases are measured by this process's monotonic clock from the moment a word was received. They begin anew when the
server starts, and when it finds that it was itself stopped for a while.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum

from runyard.compute.base import JobHandle, JobReport, JobState
from runyard.core.compute import LOCAL
from runyard.core.errors import Conflict
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.job import Job, Stage
from runyard.engine.yard import BEFORE_START, Yard, handle_of

logger = logging.getLogger(__name__)

SILENT_AFTER_S = 30.0
POLL_AFTER_S = 2.0  # heartbeats come every 5 s, so a quiet healthy job is polled too: it costs a look at a lock file
ADOPT_AGAIN_S = 5.0
NOT_KNOWN = JobReport(JobState.UNKNOWN)
GONE_POLLS = 2  # one look may fall between a supervisor's last word and our hearing it


class Verdict(Enum):
    FINE = "fine"
    ADOPT = "adopt"
    SILENT = "silent"
    GONE = "gone"
    LOST = "lost"


def judge(job: Job, state: JobState, now: float) -> Verdict:
    """Return what to do about a handed job that was not heard for a moment."""
    if state is JobState.GONE:
        return Verdict.LOST if job.gone + 1 >= GONE_POLLS else Verdict.GONE
    if state is JobState.ORPHANED and now - job.adopted_at >= ADOPT_AGAIN_S:
        return Verdict.ADOPT
    if state is not JobState.WAITING and now - job.heard >= SILENT_AFTER_S and not job.silent:
        return Verdict.SILENT
    return Verdict.FINE


def look(yard: Yard) -> None:
    """Poll the targets about every job that was not heard for a moment, and act."""
    now = yard.clock.monotonic()
    quiet: dict[str, list[Job]] = defaultdict(list)
    for job in yard.board.jobs():
        if job.stage is Stage.HANDED and now - job.heard >= POLL_AFTER_S:
            target = yard.targets.find(job.workspace, job.target)
            quiet[target.backend if target is not None else LOCAL].append(job)
    for backend, jobs in quiet.items():
        reports = _poll(yard, backend, jobs)
        for job in jobs:
            verdict = judge(job, reports.get(handle_of(job), NOT_KNOWN).state, now)
            try:
                _act(yard, job, verdict, now)
            except Exception:
                # One job that cannot be looked after must not hide the others; it is looked at again in a second.
                logger.exception("run %s: could not act on `%s`", job.run_id, verdict.value)


def hear(yard: Yard, run: Run, attempt: int) -> Run:
    """Note a word from the run's supervisor; a run shown as silent goes back to what it was."""
    yard.board.hear(run.id, attempt, yard.clock.monotonic())
    if run.status is not RunStatus.NOT_RESPONDING or run.attempt != attempt:
        return run
    try:
        return yard.store.set_status(run.id, _before_silence(run), attempt=attempt, expected=[RunStatus.NOT_RESPONDING])
    except Conflict:
        return yard.store.get_run(run.id)


def _poll(yard: Yard, backend: str, jobs: list[Job]) -> Mapping[JobHandle, JobReport]:
    try:
        return yard.backends[backend].poll([handle_of(job) for job in jobs])
    except Exception:
        # A backend may be somebody else's code; what it cannot tell stays unknown, which ends nothing.
        logger.exception("backend %s could not be polled", backend)
        return {}


def _before_silence(run: Run) -> RunStatus:
    if run.desired == "cancel":
        return RunStatus.CANCEL_REQUESTED
    for phase in reversed(run.timeline):
        if phase.status not in (RunStatus.NOT_RESPONDING, *BEFORE_START):
            return phase.status
    return RunStatus.PREPARING


def _act(yard: Yard, job: Job, verdict: Verdict, now: float) -> None:
    if verdict is Verdict.ADOPT:
        logger.info("run %s: its supervisor is gone, adopting it", job.run_id)
        yard.board.update(job.run_id, adopted_at=now, gone=0)
        yard.backend(job.workspace, job.target).adopt(handle_of(job))
    elif verdict is Verdict.GONE:
        yard.board.update(job.run_id, gone=job.gone + 1)
    elif verdict is Verdict.LOST:
        _lose(yard, job)
    elif verdict is Verdict.SILENT:
        _show_silence(yard, job)


def _show_silence(yard: Yard, job: Job) -> None:
    run = yard.store.get_run(job.run_id)
    if run.status.is_terminal:
        yard.ended(run)
        return
    current = yard.board.find(job.run_id)
    if current is None or current.heard != job.heard:
        return
    try:
        yard.store.set_status(job.run_id, RunStatus.NOT_RESPONDING, attempt=job.attempt, expected=[run.status])
    except Conflict:
        return
    yard.board.update(job.run_id, silent=True)
    logger.warning("run %s: silent for %.0f s", job.run_id, SILENT_AFTER_S)
    yard.on_change(job.run_id)


def _lose(yard: Yard, job: Job) -> None:
    """End a run of which nothing lives any more, unless its end arrived meanwhile."""
    with yard.locks(job.run_id):
        run = yard.store.get_run(job.run_id)
        if run.status.is_terminal or run.attempt != job.attempt:
            yard.ended(run)
            return
        if run.desired == "cancel":
            ended = yard.store.set_status(run.id, RunStatus.CANCELED, attempt=job.attempt, expected=[run.status])
        else:
            ended = yard.store.set_status(
                run.id, RunStatus.FAILED, attempt=job.attempt, expected=[run.status], error=_lost_error(run)
            )
    logger.warning("run %s: nothing of it lives any more, %s", run.id, ended.status)
    yard.ended(ended)


def _lost_error(run: Run) -> dict[str, object]:
    started = run.status not in BEFORE_START
    message = (
        f"Run `{run.id}` was lost on `{run.spec.target}`: its processes and its supervisor are gone without an end."
        if started
        else f"Run `{run.id}` never started on `{run.spec.target}`: its supervisor is gone."
    )
    why = "The machine was restarted, or somebody killed them all."
    return {"code": "NodeLost", "message": f"{message}\n{why}", "details": {"hint": "Submit it again."}}
