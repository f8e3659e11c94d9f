"""Retries a run whose machine was lost, up to `max_attempts`, and never while the old attempt may live.

A run that was sent to a dead machine, so that nothing of it began, is retried anyhow.

The attempt is fenced first, in the store: from then on every answer to its supervisors tells them to stop. The next
one starts when they have reported their end, or when the cluster says that it is gone and a lease and a margin have
passed since their last message: by then they have ended their processes themselves
(supervisor/shipping/connection.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runyard.compute.base import EndCause, JobReport
from runyard.core.attempts import LEASE_S
from runyard.core.formats.documents import ErrorDetails, RunError
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, ComputeState, EngineContext, is_launched
from runyard.engine.runs.events import list_joins
from runyard.engine.runs.requirements import waiting_entry
from runyard.engine.runs.streams import close_streams, stream_key
from runyard.engine.sanitize import storable
from runyard.engine.state.allocation import QueueEntry, Stage
from runyard.store.base import RunStore

NODE_LOST, PREEMPTED = "NodeLost", "Preempted"
NEVER_STARTED = "NeverStarted"  # the code of an attempt of which nothing began; its run's error says why
RETRIED = frozenset({NODE_LOST, PREEMPTED})  # codes after which a run's next attempt may follow
_CODES = {
    EndCause.PREEMPTED: PREEMPTED,
    EndCause.TIME_LIMIT: "RunTimeLimitExceeded",
    EndCause.CANCELED: "CanceledAtTarget",
    EndCause.REFUSED: "SubmitRejected",
}
_CANCELED = (EndCause.TIME_LIMIT, EndCause.CANCELED)
MARGIN_S = 10.0
MOST_IN_VAIN = 3  # a cluster that loses every machine at once has another trouble


@dataclass(frozen=True)
class LossReason:
    """How a run ends whose job is gone without an end of its own."""

    status: RunStatus
    error: RunError

    @property
    def code(self) -> str:
        """The error's code."""
        return str(self.error["code"])


def loss_reason(run: Run, report: JobReport, hosts: Sequence[str] = ()) -> LossReason:
    """Return how a run ends whose job is gone. `hosts` are the nodes that had joined, by rank. Pure."""
    lines = [_what(run, report.cause), storable(report.why) or _why(report.cause)]
    details: ErrorDetails = {"hint": _hint(run, report)}
    if hosts:
        lines.append(f"It ran on {', '.join(f'`{host}`' for host in hosts)}.")
        details["nodes"] = list(hosts)
    if run.attempt > 1:
        lines.append(f"This was attempt {counted(run)} of {run.spec.max_attempts}{_besides(run)}.")
    code, message = _CODES.get(report.cause, NODE_LOST), "\n".join(filter(None, lines))
    error: RunError = {"code": code, "message": message, "details": details}
    return LossReason(RunStatus.CANCELED if report.cause in _CANCELED else RunStatus.FAILED, error)


def counted(run: Run) -> int:
    """Return the number of this attempt among those that the user allowed."""
    return run.attempt - never_started_count(run)


def never_started_count(run: Run) -> int:
    """Return how many attempts were fenced before any process of them started."""
    return sum(one.code == NEVER_STARTED for one in run.attempts)


def _besides(run: Run) -> str:
    return f", besides {never_started_count(run)} of which nothing began" if never_started_count(run) else ""


def _what(run: Run, cause: EndCause) -> str:
    target = f"`{run.spec.target}`"
    if cause is EndCause.PREEMPTED:
        return f"Run `{run.id}` was preempted on {target}: its machines were given to somebody else."
    if cause is EndCause.TIME_LIMIT:
        return f"Run `{run.id}` was ended by {target} at the time limit that this target has."
    if cause is EndCause.CANCELED:
        return f"Run `{run.id}` was canceled at {target}, not through Runyard."
    if cause is EndCause.REFUSED:
        return f"Run `{run.id}` was refused by {target}."
    if run.status in BEFORE_START:
        return f"Run `{run.id}` never started on {target}: its supervisor is gone."
    if cause is EndCause.NODE_LOST:
        return f"Run `{run.id}` was lost on {target}: its machine is gone."
    return f"Run `{run.id}` was lost on {target}: its processes and its supervisor are gone without an end."


def _why(cause: EndCause) -> str:
    known = {
        EndCause.UNKNOWN: "The machine was restarted, or somebody killed them all.",
        EndCause.ENDED: "The job there ended by itself; its supervisor was killed, or its machine was restarted.",
    }
    return known.get(cause, "")


def _hint(run: Run, report: JobReport) -> str:
    cause = report.cause
    if cause is EndCause.TIME_LIMIT:
        return "Ask the target for more time, or save checkpoints below ./outputs and submit it again."
    if cause is EndCause.REFUSED:
        return f"`runyard runs show {run.id} --plan` prints what was asked for; change it and submit again."
    if cause is EndCause.ENDED and report.why:
        return f"Put right what it says and submit it again; `runyard compute test {run.spec.target}` tries every node."
    if cause is EndCause.CANCELED or run.spec.max_attempts > 1:
        return "Submit it again."
    return "Submit it again; with `max_attempts=3` in ScriptRunConfig it would have been started again by itself."


logger = logging.getLogger(__name__)


def may_follow(run: Run, code: str, *, has_begun: bool = True) -> bool:
    """Whether another attempt may follow one that ended with this error code. Pure."""
    is_left = counted(run) < run.spec.max_attempts if has_begun else never_started_count(run) < MOST_IN_VAIN
    return is_launched(run) and is_left and code in RETRIED and run.desired is None and not run.is_fenced


def hosts_of(store: RunStore, compute: ComputeState, run: Run) -> list[str]:
    """Return the machines of the present attempt, by rank."""
    if compute.is_local(run):
        return []
    joins = sorted(list_joins(store, run.id, run.attempt).items())
    return [str(join["host"]) for _, join in joins if join.get("host")]


def fence(context: EngineContext, run: Run, error: Mapping[str, Any], *, has_begun: bool = True) -> Run:
    """Give the present attempt up: from now on every answer tells its supervisors to stop.

    The caller holds the run's lock and the run is not fenced. The cluster is asked to free the attempt's resources.
    """
    why = " ".join(str(error.get("message") or "").split())
    code = str(error.get("code") or "") if has_begun else NEVER_STARTED
    fenced = context.store.fence_attempt(
        run.id, run.attempt, code=code, why=why, host=", ".join(hosts_of(context.store, context.compute, run))
    )
    logger.warning("run %s: attempt %d is given up: %s", run.id, run.attempt, why)
    context.board.update(run.id, stage=Stage.FENCED, silent=False, gone_polls=0, wait_reason="")
    context.release(fenced)
    context.gangs.touch(run.id)
    context.events.on_change(run.id)
    context.events.wake.set()
    return fenced


def is_over(context: EngineContext, job: QueueEntry, now: float) -> bool:
    """Whether it is certain that no process lives of a job that the cluster has twice called gone."""
    target = context.compute.targets.find(job.workspace, job.target)
    if target is None or target.is_local:
        return True  # somebody looked at the machine itself
    return (
        never_ran(context.store, job)
        or now - max(job.last_heard_at, context.gangs.last_heard(job.run_id)) >= LEASE_S + MARGIN_S
    )


def never_ran(store: RunStore, job: QueueEntry) -> bool:
    """Whether no node of a job on a cluster ever joined; one that joins later is refused once it is fenced."""
    return not job.has_reported and not list_joins(store, job.run_id, job.attempt)


def is_all_over(context: EngineContext, run: Run) -> bool:
    """Whether all nodes of the attempt have reported their end, now that node 0 has."""
    if context.compute.is_local(run):
        return True
    others = set(list_joins(context.store, run.id, run.attempt)) - {0}
    told = {one["rank"] for one in context.gangs.show(run.id, context.clock.monotonic()) if "ended" in one["facts"]}
    return others <= told


def start_next(context: EngineContext, run: Run) -> Run:
    """Queue the next attempt, or end the run if a cancel came meanwhile. No process of the old attempt lives any more.

    The caller holds the run's lock.
    """
    if run.desired is not None:
        return _end_as_wished(context, run)
    keep_logs(context.store, run)
    ready = context.store.fence_attempt(run.id, run.attempt, is_over=True)
    put_in_queue(context, ready)
    return ready


def start_next_when_all_reported(context: EngineContext, job: QueueEntry) -> bool:
    """Start the next attempt once all nodes of the fenced one have reported their end. Return whether it did.

    Called by the loop for entries with `node0_ended`; it takes the run's lock.
    """
    with context.locks.of_run(job.run_id):
        run = context.store.get_run(job.run_id)
        is_due = run.attempt == job.attempt and run.is_fenced and not run.status.is_terminal
        if not is_due or not is_all_over(context, run):
            return False
        start_next(context, run)
        return True


def put_in_queue(context: EngineContext, run: Run) -> None:
    """Reset the run's queue entry so that its next attempt waits for a slot. The caller holds the run's lock."""
    fresh = waiting_entry(context, run)
    context.board.update(
        run.id,
        stage=Stage.WAITING,
        **dict.fromkeys(("silent", "cluster_gone", "has_reported", "node0_ended"), False),
        **dict.fromkeys(("gone_polls", "faults", "doubted_at", "retry_at"), 0),
        fault="",
        slots=(),
        gpus=fresh.gpus,
        shares_gpus=fresh.shares_gpus,
        devices=fresh.devices,
    )
    context.events.on_change(run.id)
    context.events.wake.set()


def keep_logs(store: RunStore, run: Run) -> None:
    """Rename the logs of an attempt that is over to `attempt_N/…`, so that the next attempt's take their names."""
    logs = [file for file in store.list_files(run.id, with_chunks=False) if file.kind == "stream" and not file.complete]
    for file in logs:
        key = stream_key(run.id, run.attempt + 1, file.name)
        if not file.name.startswith("attempt_") and file.chunks != [key]:
            store.put_file(run.id, replace(file, name=f"attempt_{run.attempt}/{file.name}"))
            store.put_file(run.id, replace(file, chunks=[key], size=0))


def _end_as_wished(context: EngineContext, run: Run) -> Run:
    status = RunStatus.CANCELED if run.desired == "cancel" else RunStatus.FAILED
    error = run.desired_error if status is RunStatus.FAILED else None
    close_streams(context.store, context.artifacts, run)
    ended = context.store.set_status(run.id, status, attempt=run.attempt, error=error, waits_for="")
    logger.info("run %s: %s between two attempts", run.id, ended.status)
    context.ended(ended)
    return ended
