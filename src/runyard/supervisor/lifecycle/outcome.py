"""Decides how a run ended on this node: exit records and a stop become a status and an error."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple, Optional, Sequence

from runyard.core.attempts import LEASE_S
from runyard.core.errors import RunyardError
from runyard.core.specs import JobSpec, NodeSpec
from runyard.core.statuses import RunStatus
from runyard.supervisor.lifecycle.prepare import PreparationFailed
from runyard.supervisor.lifecycle.stopping import CANCEL, CUT_OFF, FAIL, FOLDER_GONE, HANG, SUPERSEDED, TIME_LIMIT, Stop
from runyard.supervisor.processes.exits import FailureWeight, has_failed
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.documents import ErrorDetails, RunError
    from runyard.core.formats.run_files import LaunchPlan, RankExit
    from runyard.supervisor.diagnosis.diagnosis import Finding


class Outcome(NamedTuple):
    """Status and error of a run. `finding` is the error before it became a text, to compare it between nodes."""

    status: RunStatus
    error: Optional[RunError] = None
    finding: Optional[Finding] = None


def decide(
    folder: RunFolder,
    job: JobSpec,
    *,
    launch: LaunchPlan,
    exits: Sequence[RankExit],
    stop: Optional[Stop],
    had_to_kill: bool,
    emptied_boot_ns: Optional[int] = None,
) -> Outcome:
    """Return the end of a run whose processes are gone. Processes that ended after `emptied_boot_ns` were ended by us.

    The order of the checks counts: a stop for a reason other than a failed rank wins over what the ranks did.
    """
    if stop is not None and stop.reason in (CANCEL, SUPERSEDED):
        return Outcome(RunStatus.CANCELED)
    if stop is not None and stop.reason == TIME_LIMIT:
        return Outcome(RunStatus.CANCELED, _time_limit(job, had_to_kill))
    if stop is not None and stop.reason == FAIL:
        return Outcome(RunStatus.FAILED, stop.error or _asked_to_fail())
    if stop is not None and stop.reason == HANG:
        return Outcome(RunStatus.FAILED, stop.error)
    if stop is not None and stop.reason == FOLDER_GONE:
        return Outcome(RunStatus.FAILED, folder_removed(folder))
    if stop is not None and stop.reason == CUT_OFF:
        return Outcome(RunStatus.FAILED, _cut_off())
    if any(record.get("lost") for record in exits):
        return Outcome(RunStatus.FAILED, _node_lost(job))
    # Imported here: only ends need them, and starts must not wait for them.
    from runyard.supervisor.diagnosis.diagnosis import error_of, find_failure, finding_of
    from runyard.supervisor.mpi.fault import find_mpirun_fault

    counting = {process["rank"] for process in launch.get("processes", ()) if process.get("counts", True)}
    ends = [record for record in exits if record["rank"] in counting]
    ranks = [record for record in exits if record["rank"] >= 0]
    fault = find_mpirun_fault(folder, counting, exits)
    if fault is not None and (len(ends) < len(counting) or any(has_failed(record) for record in ends)):
        weight = FailureWeight.BEFORE_ALL if fault["details"].get("signal") else FailureWeight.AFTER_ALL
        return Outcome(RunStatus.FAILED, fault, finding_of(fault, weight=weight))
    if any(has_failed(record) for record in ends):
        stopped = stop.since_boot_ns if stop is not None else emptied_boot_ns
        finding = find_failure(folder, launch, ranks, job=job, stopped_boot_ns=stopped)
        return Outcome(RunStatus.FAILED, error_of(finding), finding)
    return Outcome(RunStatus.COMPLETED)


def before_launch(stop: Optional[Stop]) -> Outcome:
    """Return the end of a run that was stopped before any of its code ran."""
    if stop is not None and stop.reason == FAIL:
        return Outcome(RunStatus.FAILED, stop.error or _asked_to_fail())
    return Outcome(RunStatus.CANCELED)


def after_failed_preparation(failure: PreparationFailed, *, node: Optional[NodeSpec] = None) -> Outcome:
    """Return the end of a run whose preparation failed; `node` is named where there are several."""
    from runyard.supervisor.diagnosis.diagnosis import place_of  # imported here for the same reason

    cause = failure.cause
    code = cause.code if isinstance(cause, RunyardError) else "SystemFailure"
    text = str(cause) if isinstance(cause, RunyardError) else f"{type(cause).__name__}: {cause}"
    details: ErrorDetails = {"stage": failure.stage}
    if node is not None:
        details.update({"node": node.name, "address": node.address})
    message = f"The run did not start: {failure.stage} failed{place_of(details)}.\n{text}"
    return Outcome(RunStatus.FAILED, {"code": code, "message": message, "details": details})


def _time_limit(job: JobSpec, had_to_kill: bool) -> RunError:
    limit = f"{job.spec.time_limit_s:g} s"
    end = f"it did not stop within {job.spec.grace_s:g} s and was killed" if had_to_kill else "it was stopped"
    message = (
        f"The run reached its time limit of {limit}: {end}.\n"
        "Give it more with `max_run_duration_seconds` in ScriptRunConfig."
    )
    return {"code": "RunTimeLimitExceeded", "message": message, "details": {"time_limit_s": job.spec.time_limit_s}}


def _asked_to_fail() -> RunError:
    return {"code": "UserError", "message": "The run was marked as failed by its user.", "details": {}}


def folder_removed(folder: RunFolder) -> RunError:
    """Return the error of a run whose folder was removed while it ran."""
    message = (
        f"The run's folder `{folder.path}` was removed while the run was going on, so it was ended.\n"
        "What had arrived until then is kept. Submit it again, and leave the folder `runs` to Runyard."
    )
    return {"code": "RunFolderRemoved", "message": message, "details": {}}


def _cut_off() -> RunError:
    host = socket.gethostname()
    message = (
        f"The machine `{host}` was cut off from the server for {LEASE_S:g} s, so it ended this attempt's processes: "
        "only then may another attempt start elsewhere."
    )
    return {"code": "NodeLost", "message": message, "details": {"nodes": [host]}}


def _node_lost(job: JobSpec) -> RunError:
    node = job.nodes[0] if job.incarnation and job.nodes else None  # on a cluster the message names the node
    machine = f"The machine `{node.name}` ({node.address})" if node is not None else "The machine"
    message = (
        f"{machine} was restarted while the run was going on, or all that the run had there was killed at once.\n"
        "Submit it again."
    )
    details: ErrorDetails = {"node": node.name, "address": node.address} if node is not None else {}
    return {"code": "NodeLost", "message": message, "details": details}
