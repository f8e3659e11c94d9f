"""Reports of supervisors: phases on the way, and the one end.

A report of a failure is not the end of the run if the attempt is fenced or another may follow it.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runyard.artifacts.base import ArtifactStore
from runyard.compute.base import Cause, JobReport, JobState
from runyard.core.errors import Conflict, InvalidArgument, InvalidTransition, MissingContent, StoreUnavailable
from runyard.core.formats.documents import EnvironmentFacts, RunError, RunWarning
from runyard.core.formats.plain import to_plain
from runyard.core.records import Mark, Run, RunChange
from runyard.core.statuses import RunStatus
from runyard.engine.context import EngineContext, handle_of
from runyard.engine.runs.liveness import note_heartbeat
from runyard.engine.runs.retries import (
    PREEMPTED,
    RETRIED,
    fence,
    hosts_of,
    is_all_over,
    loss_reason,
    may_follow,
    start_next,
)
from runyard.engine.runs.streams import close_streams, stream_size
from runyard.engine.runs.wait_reasons import explain_run
from runyard.engine.sanitize import storable, storable_value
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)

DOUBT_S = 8.0  # a cluster tells of a preemption a moment after it has killed the program for it
_KILLS = (signal.SIGTERM, signal.SIGKILL)
_KILLED_SIGNALS = {str(name) for one in _KILLS for name in (one.name, int(one))}
_KILLED_CODES = {128 + one for one in _KILLS}  # how a shell tells of it, and a program that saves its state first
Error = Mapping[str, Any] | None


def is_taken_as_loss(context: EngineContext, run: Run, status: RunStatus, error: Error) -> bool:
    """Whether a report is about an attempt that is, or will be, fenced. A script that completed has completed.

    The caller holds the run's lock. A cluster may be asked.

    Raises:
        StoreUnavailable: that is not known yet; the supervisor reports again in a moment.
    """
    if run.is_fenced:
        return status is not RunStatus.COMPLETED
    if status is not RunStatus.FAILED:
        return False
    return may_follow(run, _code(error)) or _was_killed_by_cluster(context, run, error)


def accept_loss(context: EngineContext, run: Run, status: RunStatus, error: Error) -> Run:
    """Fence the attempt, unless it is, and start the next one when all of its nodes are over.

    The caller holds the run's lock.
    """
    if not run.is_fenced:
        told = _cluster_loss(context, run)
        run = fence(context, run, told if told is not None else error or {})
    if not status.is_terminal or run.is_between_attempts:
        return run
    context.board.update(run.id, node0_ended=True)
    return start_next(context, run) if is_all_over(context, run) else run


def _code(error: Error) -> str:
    return str((error or {}).get("code") or "")


def _was_killed_by_cluster(context: EngineContext, run: Run, error: Error) -> bool:
    """Whether the program was killed since its machine was wanted for another job, which only the cluster knows."""
    if (
        not _was_killed((error or {}).get("details") or {})
        or not may_follow(run, PREEMPTED)
        or context.compute.is_local(run)
    ):
        return False
    if _cluster_loss(context, run) is not None:
        return True
    job, now = context.board.find(run.id), context.clock.monotonic()
    if job is None or (job.doubted_at and now - job.doubted_at >= DOUBT_S):
        return False
    context.board.update(run.id, doubted_at=job.doubted_at or now)
    raise StoreUnavailable(
        f"Run `{run.id}` cannot end yet.",
        why=f"Its program was killed; `{run.spec.target}` is asked whether it was preempted.",
        hint="Report the end again in a moment.",
    )


def _was_killed(details: Mapping[str, Any]) -> bool:
    return str(details.get("signal") or "") in _KILLED_SIGNALS or details.get("exit_code") in _KILLED_CODES


def _cluster_loss(context: EngineContext, run: Run) -> Mapping[str, Any] | None:
    """Return the error of an attempt whose cluster says that it took its machines away, or lost them."""
    report = _report_of(context, run)
    if report.state is not JobState.GONE or report.cause not in (Cause.PREEMPTED, Cause.NODE_LOST):
        return None
    loss = loss_reason(run, report, hosts_of(context.store, context.compute, run))
    return loss.error if loss.code in RETRIED else None


def _report_of(context: EngineContext, run: Run) -> JobReport:
    job = context.board.find(run.id)
    unknown = JobReport(JobState.UNKNOWN)
    if job is None or context.compute.is_local(run):
        return unknown
    handle = handle_of(job)
    try:
        return context.compute.backend(run.workspace, run.spec.target).poll([handle]).get(handle, unknown)
    except Exception:
        # A backend may be somebody else's code; what it cannot tell must not keep a run from ending.
        logger.exception("run %s: its target could not be polled", run.id)
        return unknown


_REPORTED = frozenset(RunStatus) - {
    RunStatus.NOT_STARTED,
    RunStatus.NOT_RESPONDING,
    RunStatus.CANCEL_REQUESTED,
    RunStatus.UNAPPROVED,
}


@dataclass(frozen=True)
class StateReport:
    """One report of a supervisor. `marks` and `logs` say what must be stored before a final status is taken."""

    attempt: int
    status: RunStatus
    error: RunError | None = None
    warnings: list[RunWarning] = field(default_factory=list)
    environment: EnvironmentFacts | None = None
    marks: list[Mark] = field(default_factory=list)
    logs: dict[str, int] = field(default_factory=dict)
    doing: str = ""  # what takes time in this phase


def accept_report(context: EngineContext, run_id: str, said: StateReport, *, external_writer: int = 0) -> Run:
    """Take a supervisor's report and return the run as it now is. The watcher of an external writer changes nothing.

    Called by request threads; it takes the run's lock. It may be repeated: a phase that the run has left changes
    nothing, nor does a second end. The answer's status tells the supervisor.

    Raises:
        Conflict: the report is about an old attempt.
        MissingContent: a final status came before everything was stored; `details` say how far it is.
    """
    if said.status not in _REPORTED:
        raise InvalidArgument(f"A supervisor cannot report the status {said.status}.")
    if external_writer:
        return _report_of_external_writer(context, run_id, said, external_writer)
    with context.locks.of_run(run_id):
        run = context.store.get_run(run_id)
        _check_attempt(run, said.attempt)
        if run.status.is_terminal:
            return run
        _keep_facts(context.store, run_id, said)
        run = note_heartbeat(context, run, said.attempt)
        if said.status.is_terminal:
            _check_complete(context.store, context.artifacts, run, said, 0)
        if is_taken_as_loss(context, run, said.status, said.error):
            return accept_loss(context, run, said.status, said.error)
        if said.status.is_terminal:
            close_streams(context.store, context.artifacts, run)
        run = _move(context, run, said)
    if run.status.is_terminal:
        logger.info("run %s: %s", run_id, run.status)
        context.ended(run)
    else:
        context.events.on_change(run_id)
    return run


def end_unsupervised(context: EngineContext, run_id: str, status: RunStatus, error: Mapping[str, Any] | None) -> None:
    """End a run without a supervisor (a script's child run) by the END record of its journal.

    Called while a shipment is stored, under `locks.of_shipments`; it takes the run's lock. A second end changes
    nothing.
    """
    with context.locks.of_run(run_id):
        run = context.store.get_run(run_id)
        if run.attempt or run.status.is_terminal or not status.is_terminal:
            return
        close_streams(context.store, context.artifacts, run)
        ended = context.store.set_status(run_id, status, error=storable_value(dict(error)) if error else None)
    context.ended(ended)


def _report_of_external_writer(context: EngineContext, run_id: str, said: StateReport, external_writer: int) -> Run:
    """Answer the watcher of an external writer: it may leave once all is stored; the run stays."""
    run = context.store.get_run(run_id)
    if said.status.is_terminal:
        _check_complete(context.store, context.artifacts, run, replace(said, attempt=0), external_writer)
    return replace(run, desired=None, desired_error=None)


def _check_attempt(run: Run, attempt: int) -> None:
    if run.attempt != attempt:
        raise Conflict(
            f"Run `{run.id}` is at attempt {run.attempt}; this report is about attempt {attempt}.",
            why="Only the present attempt may change a run's status.",
        )


def _keep_facts(store: RunStore, run_id: str, said: StateReport) -> None:
    if said.warnings or said.environment is not None:
        change = RunChange(warnings_add=storable_value(said.warnings), environment=said.environment)
        store.update_run(run_id, change)


def _check_complete(
    store: RunStore, artifacts: ArtifactStore, run: Run, said: StateReport, external_writer: int
) -> None:
    marks = store.list_marks(run.id, said.attempt, external_writer=external_writer)
    stored = {(mark.writer, mark.segment): mark.offset for mark in marks}
    short = [mark for mark in said.marks if stored.get((mark.writer, mark.segment), 0) < mark.offset]
    number = external_writer or said.attempt
    logs = {name: stream_size(artifacts, run.id, number, name) for name in said.logs}
    behind = {name: size for name, size in logs.items() if size < said.logs[name]}
    if short or behind:
        held: Sequence[Mark] = [Mark(m.writer, m.segment, stored.get((m.writer, m.segment), 0)) for m in short]
        raise MissingContent(
            f"Run `{run.id}` cannot end yet: {len(short)} journal segments and {len(behind)} logs are not whole.",
            hint="Ship the rest, then report the end again.",
            details={"marks": to_plain(held), "logs": behind},
        )


def _move(context: EngineContext, run: Run, said: StateReport) -> Run:
    error = storable_value(said.error) if said.error and said.status.is_terminal else None
    doing = explain_run(context, replace(run, status=said.status, waits_for=storable(said.doing))) if said.doing else ""
    try:
        return context.store.set_status(run.id, said.status, attempt=said.attempt, error=error, waits_for=doing)
    except InvalidTransition:
        # A restarted supervisor repeats phases, and a cancel may have come between: the answer tells it.
        return context.store.get_run(run.id)
