"""What it means for a run that nothing of its job lives any more, in the words of the engine that had it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runyard.compute.base import Cause, JobReport
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START
from runyard.engine.texts import storable

NODE_LOST, PREEMPTED = "NodeLost", "Preempted"
NEVER_STARTED = "NeverStarted"  # the code of an attempt of which nothing began; its run's error says why
RETRIED = frozenset({NODE_LOST, PREEMPTED})  # codes after which a run's next attempt may follow
_CODES = {
    Cause.PREEMPTED: PREEMPTED,
    Cause.TIME_LIMIT: "RunTimeLimitExceeded",
    Cause.CANCELED: "CanceledAtTarget",
    Cause.REFUSED: "SubmitRejected",
}
_CANCELED = (Cause.TIME_LIMIT, Cause.CANCELED)


@dataclass(frozen=True)
class Loss:
    """How a run ends whose job is gone without an end of its own."""

    status: RunStatus
    error: dict[str, Any]

    @property
    def code(self) -> str:
        return str(self.error["code"])

    @property
    def is_retried(self) -> bool:
        return self.code in RETRIED


def loss_of(run: Run, report: JobReport, hosts: Sequence[str] = ()) -> Loss:
    """`hosts`: the nodes that had joined, by rank."""
    lines = [_what(run, report.cause), storable(report.why) or _why(report.cause)]
    details: dict[str, Any] = {"hint": _hint(run, report)}
    if hosts:
        lines.append(f"It ran on {', '.join(f'`{host}`' for host in hosts)}.")
        details["nodes"] = list(hosts)
    if run.attempt > 1:
        lines.append(f"This was attempt {counted(run)} of {run.spec.max_attempts}{_besides(run)}.")
    error = {"code": _CODES.get(report.cause, NODE_LOST), "message": "\n".join(filter(None, lines)), "details": details}
    return Loss(RunStatus.CANCELED if report.cause in _CANCELED else RunStatus.FAILED, error)


def counted(run: Run) -> int:
    """Return which attempt this is of those that its user allowed."""
    return run.attempt - in_vain(run)


def in_vain(run: Run) -> int:
    """Return how many attempts were given up before anything of them began."""
    return sum(one.code == NEVER_STARTED for one in run.attempts)


def _besides(run: Run) -> str:
    return f", besides {in_vain(run)} of which nothing began" if in_vain(run) else ""


def _what(run: Run, cause: Cause) -> str:
    target = f"`{run.spec.target}`"
    if cause is Cause.PREEMPTED:
        return f"Run `{run.id}` was preempted on {target}: its machines were given to somebody else."
    if cause is Cause.TIME_LIMIT:
        return f"Run `{run.id}` was ended by {target} at the time limit that this target has."
    if cause is Cause.CANCELED:
        return f"Run `{run.id}` was canceled at {target}, not through Runyard."
    if cause is Cause.REFUSED:
        return f"Run `{run.id}` was refused by {target}."
    if run.status in BEFORE_START:
        return f"Run `{run.id}` never started on {target}: its supervisor is gone."
    if cause is Cause.NODE_LOST:
        return f"Run `{run.id}` was lost on {target}: its machine is gone."
    return f"Run `{run.id}` was lost on {target}: its processes and its supervisor are gone without an end."


def _why(cause: Cause) -> str:
    known = {
        Cause.UNKNOWN: "The machine was restarted, or somebody killed them all.",
        Cause.ENDED: "The job there ended by itself; its supervisor was killed, or its machine was restarted.",
    }
    return known.get(cause, "")


def _hint(run: Run, report: JobReport) -> str:
    cause = report.cause
    if cause is Cause.TIME_LIMIT:
        return "Ask the target for more time, or save checkpoints below ./outputs and submit it again."
    if cause is Cause.REFUSED:
        return f"`runyard runs show {run.id} --plan` prints what was asked for; change it and submit again."
    if cause is Cause.ENDED and report.why:
        return f"Put right what it says and submit it again; `runyard compute test {run.spec.target}` tries every node."
    if cause is Cause.CANCELED or run.spec.max_attempts > 1:
        return "Submit it again."
    return "Submit it again; with `max_attempts=3` in ScriptRunConfig it would have been started again by itself."
