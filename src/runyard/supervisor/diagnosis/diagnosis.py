"""Finds the rank that failed first and turns that into the run's error, with cause, evidence and consequences.

Failures are ordered by weight, then by time. Called by the supervisor's main thread at the end of a run.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, cast

from runyard.core.formats.documents import ErrorDetails
from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import JobSpec
from runyard.supervisor.diagnosis.causes import AT_EXIT, EXIT_CODE, HANG, FailureCause, find_cause, signal_name
from runyard.supervisor.diagnosis.log_tail import LogTail, read_tail
from runyard.supervisor.processes.exits import FailureWeight, has_failed
from runyard.supervisor.processes.killing import memory_limit
from runyard.supervisor.run_folder import RunFolder, work_folder

if TYPE_CHECKING:
    from runyard.core.formats.documents import RankFacts, RunError, UncaughtException
    from runyard.core.formats.run_files import LaunchPlan, PlannedProcess, RankExit

DEFAULT_LOG = "user_logs/std_log.txt"
_STOPS = (15, 2, 1)  # signals with which launchers and users stop ranks
_STOP_CODES = (143, 130, 129)
NO_ANSWER = "User program did not answer: the other ranks waited for it until their time was over."
FORMAT = 1
LAST_LINES_TITLE = "\n\nLast lines of"
MOST_SHOWN = 12  # most ranks that a sentence names


@dataclass(frozen=True)
class RankEnd:
    """The failure of one rank. `weight` says how far it is from being the cause (FailureWeight)."""

    rank: int
    process: PlannedProcess
    record: RankExit
    exception: Optional[UncaughtException]
    cause: FailureCause
    tail: LogTail
    weight: int
    at_boot_ns: int

    @property
    def log(self) -> str:
        """The rank's log, relative to the run folder."""
        return str(self.process.get("log") or DEFAULT_LOG)

    @property
    def waited_in_vain(self) -> bool:
        """Whether the rank failed because it had waited in vain for another."""
        return self.weight == FailureWeight.CONSEQUENCE and self.cause.is_timeout


def list_failures(
    folder: RunFolder,
    launch: LaunchPlan,
    exits: Sequence[RankExit],
    *,
    stopped_boot_ns: Optional[int] = None,
) -> List[RankEnd]:
    """Return the failed ranks, the cause before its consequences. `stopped_boot_ns`: when we began to stop the ranks.

    Peers of a crashed rank often end a moment before it: their connections are reset while its crash is still being
    written. So failures that show a lost peer, and ranks that were stopped, come later, whatever their time.
    """
    failed: List[RankExit] = [{**record} for record in exits if has_failed(record)]
    alone = "ranks" not in launch and len([record for record in exits if int(record["rank"]) >= 0]) < 2
    found = [_rank_end(folder, launch, record, stopped_boot_ns, alone=alone) for record in failed]
    return _missing_first(sorted(found, key=lambda end: (end.weight, end.at_boot_ns, end.rank)))


def find_exception(folder: RunFolder, rank: int, record: RankExit) -> Optional[UncaughtException]:
    """Return the exception that ended the rank's process, else the first one of its child processes."""
    pids = {entry["rank"]: entry["pid"] for entry in folder.read("ranks.json") or ()}
    pid = record.get("pid") or pids.get(rank)
    found = _read_exceptions(folder)
    own = [value for value in found if value.get("pid") == pid]
    if record.get("signal") or (own and not _is_about_child(own[0])):
        return own[0] if own else None
    below = [value for value in found if value not in own and _belongs(value, rank, alone=len(pids) <= 1)]
    below.sort(key=lambda value: int(value["boot_ns"]))
    return next(iter([*below, *own]), None)


def count_ranks(launch: LaunchPlan) -> int:
    """Return how many ranks the job has on all its nodes."""
    return int(launch.get("ranks") or len([one for one in launch.get("processes", ()) if one["rank"] >= 0]))


def process_of(launch: LaunchPlan, rank: int) -> PlannedProcess:
    """Return the planned process of a rank, {} when `launch.json` is lost."""
    found = [process for process in launch.get("processes", ()) if process.get("rank") == rank]
    return found[0] if found else {}


def _rank_end(
    folder: RunFolder, launch: LaunchPlan, record: RankExit, stopped_boot_ns: Optional[int], *, alone: bool
) -> RankEnd:
    rank = int(record["rank"])
    process = process_of(launch, rank)
    log = str(process.get("log") or DEFAULT_LOG)
    exception = find_exception(folder, rank, record)
    tail = read_tail(folder.at(log), log)
    own_end = folder.read_object(f"ends/{_pid_of(folder, record)}.json")
    if record.get("oom"):
        record.setdefault("memory_limit_bytes", memory_limit())
    cause = find_cause(record, exception=exception, tail=tail, had_finished=own_end.get("ok") is True)
    ended = int(record.get("ended_boot_ns") or 0)
    raised = int(exception["boot_ns"] if exception else 0) or ended
    weight = _weight(record, cause, min(raised, ended), stopped_boot_ns, has_raised=exception is not None)
    if weight == FailureWeight.CAUSE and cause.kind == EXIT_CODE and not own_end:
        weight = FailureWeight.ABORTED  # Python did not end it: MPI aborts ranks that lost a peer with its own code
    if rank < 0:  # mpirun and its daemons only repeat the end of their ranks
        weight = FailureWeight.HELPER
    elif alone:
        weight = FailureWeight.CAUSE
    return RankEnd(rank, process, record, exception, cause, tail, weight, min(raised, ended) if ended else raised)


def _weight(
    record: RankExit,
    cause: FailureCause,
    failed_boot_ns: int,
    stopped_boot_ns: Optional[int],
    *,
    has_raised: bool,
) -> int:
    if stopped_boot_ns is not None and failed_boot_ns > stopped_boot_ns:
        return FailureWeight.STOPPED
    if (record.get("signal") in _STOPS and not has_raised) or record.get("code") in _STOP_CODES or cause.tells_of_peers:
        return FailureWeight.CONSEQUENCE
    return FailureWeight.ABORTED if cause.kind == AT_EXIT else FailureWeight.CAUSE


def _missing_first(failures: List[RankEnd]) -> List[RankEnd]:
    """Put ranks first that still ran when all other ranks had given up waiting for one."""
    waited = [end for end in failures if end.weight < FailureWeight.STOPPED]
    if not waited or not all(end.waited_in_vain for end in waited):
        return failures
    missing = [end for end in failures if end.weight == FailureWeight.STOPPED]
    helpers = [end for end in failures if end.weight == FailureWeight.HELPER]
    found = [
        replace(end, cause=FailureCause(HANG, NO_ANSWER, evidence=end.tail.show(end.tail.lines[-3:])))
        for end in missing
    ]
    return [*found, *waited, *helpers]


def _pid_of(folder: RunFolder, record: RankExit) -> Any:
    if record.get("pid"):
        return record["pid"]
    pids = {entry["rank"]: entry["pid"] for entry in folder.read("ranks.json") or ()}
    return pids.get(record["rank"])


def _read_exceptions(folder: RunFolder) -> List[UncaughtException]:
    """Return what excepthooks wrote. The program can write there, too, so fields of a wrong type are replaced."""
    found = []
    for value in folder.list_objects("exceptions"):
        if isinstance(value.get("type"), str) and value["type"]:
            boot_ns = value.get("boot_ns")
            texts = {name: str(value.get(name) or "") for name in ("message", "traceback")}
            found.append({**value, **texts, "boot_ns": boot_ns if isinstance(boot_ns, int) else 0})
    return cast("List[UncaughtException]", found)


def _is_about_child(exception: UncaughtException) -> bool:
    """Return whether the exception only reports a failed child process, as those of `torchrun` and `subprocess` do."""
    return str(exception["type"]).rpartition(".")[2] in ("ChildFailedError", "CalledProcessError")


def _belongs(exception: UncaughtException, rank: int, *, alone: bool) -> bool:
    known = exception.get("rank")
    return alone if known is None else known == rank


@dataclass(frozen=True)
class Finding:
    """What one supervisor found out about a failure. Supervisors of one run compare their findings."""

    code: str
    about: List[str]  # sentences about which rank failed first, and why
    details: ErrorDetails = field(default_factory=ErrorDetails)
    weight: int = FailureWeight.CAUSE
    early: List[int] = field(default_factory=list)  # ranks that had ended earlier without an error
    waited: bool = False  # all failed ranks had waited in vain for another


def describe_failure(
    folder: RunFolder,
    launch: LaunchPlan,
    exits: Sequence[RankExit],
    *,
    job: Optional[JobSpec] = None,
    stopped_boot_ns: Optional[int] = None,
) -> RunError:
    """Return the error of a run with a failed process: `{code, message, details}`."""
    return error_of(find_failure(folder, launch, exits, job=job, stopped_boot_ns=stopped_boot_ns))


def find_failure(
    folder: RunFolder,
    launch: LaunchPlan,
    exits: Sequence[RankExit],
    *,
    job: Optional[JobSpec] = None,
    stopped_boot_ns: Optional[int] = None,
) -> Finding:
    """Return the finding about a run's failed ranks. There must be at least one."""
    failures = list_failures(folder, launch, exits, stopped_boot_ns=stopped_boot_ns)
    first, others = failures[0], [end for end in failures[1:] if end.weight != FailureWeight.HELPER]
    return Finding(
        code="ExitCodeUnknown" if first.record.get("unknown") else "UserError",
        about=[*_about_first(first, launch, job), *_about_missing_file(folder, first, job)],
        details=_details(first, others, job),
        weight=first.weight,
        early=[int(one["rank"]) for one in exits if _ended_well_before(one, first)],
        waited=all(end.waited_in_vain for end in failures if end.weight < FailureWeight.STOPPED),
    )


def error_of(finding: Finding) -> RunError:
    """Return a finding as the run's error, with the last lines of the log."""
    message = "\n".join([*finding.about, *_about_others(finding)])
    return {"code": finding.code, "message": _with_tail(message, finding.details), "details": finding.details}


def finding_of(error: RunError, *, weight: int = FailureWeight.CAUSE) -> Finding:
    """Return an error that no rank caused as a finding, to be compared with those of other nodes."""
    about = str(error.get("message", "")).partition(LAST_LINES_TITLE)[0]
    return Finding(str(error.get("code") or "SystemFailure"), [about], {**(error.get("details") or {})}, weight)


def document_of(error: RunError) -> Mapping[str, object]:
    """Return the content of `diagnosis.json`: the error without the log's last lines."""
    message = str(error.get("message", "")).partition(LAST_LINES_TITLE)[0]
    details = {key: value for key, value in (error.get("details") or {}).items() if key != "last_lines"}
    return {"format": FORMAT, "code": error.get("code"), "message": message, **details}


def facts_of(rank: int, process: PlannedProcess, job: Optional[JobSpec]) -> RankFacts:
    """Return the rank, role, node and address of a process, as far as they are known."""
    facts: RankFacts = {"rank": rank}
    if process.get("role"):
        facts["role"] = process["role"]
    number = int(process.get("node_rank") or 0)
    node = next((one for one in job.nodes if one.rank == number), None) if job is not None else None
    if node is not None:
        facts.update({"node": node.name, "address": node.address})
    return facts


def name_ranks(ranks: Sequence[int]) -> str:
    """Return `Rank 1`, `Ranks 1 and 2`, `Ranks 1, 2 and 3`, …"""
    shown = [str(rank) for rank in sorted(ranks)]
    if len(shown) > MOST_SHOWN:
        shown = [*shown[: MOST_SHOWN - 1], f"{len(shown) - MOST_SHOWN + 1} more"]
    if len(shown) == 1:
        return f"Rank {shown[0]}"
    return f"Ranks {', '.join(shown[:-1])} and {shown[-1]}"


def place_of(facts: RankFacts) -> str:
    """Return ` on node-1 (127.0.1.2)`, "" when no node is known."""
    return f" on {facts['node']} ({facts['address']})" if facts.get("node") else ""


def _details(first: RankEnd, others: Sequence[RankEnd], job: Optional[JobSpec]) -> ErrorDetails:
    details: ErrorDetails = {
        **cast("ErrorDetails", facts_of(first.rank, first.process, job)),
        "kind": first.cause.kind,
        "exit_code": first.record.get("code"),
        "signal": signal_name(first.record.get("signal")),
        "log": first.log,
        "evidence": first.cause.evidence,
        "last_lines": first.tail.last(),
        "failed_ranks": sorted(end.rank for end in [first, *others]),
        "consequences": [_consequence(end, job) for end in others],
    }
    return {**details, "exception": first.exception} if first.exception else details


def _about_first(first: RankEnd, launch: LaunchPlan, job: Optional[JobSpec]) -> List[str]:
    advice = [first.cause.advice] if first.cause.advice else []
    if first.weight == FailureWeight.HELPER:
        role = str(first.process.get("role") or "A process of Runyard")
        return [first.cause.sentence.replace("User program", role, 1), *advice]
    count = count_ranks(launch)
    where = [_where(first, job, count)] if count > 1 else []
    return [first.cause.sentence, *where, *advice]


def _about_missing_file(folder: RunFolder, first: RankEnd, job: Optional[JobSpec]) -> List[str]:
    if job is None or not job.left_out:
        return []
    from runyard.supervisor.diagnosis.missing_files import explain_left_out  # few snapshots lack anything

    number = int(first.process.get("node_rank") or 0)
    text = explain_left_out(first.exception, job.left_out, work_folder(folder, job, number))
    return [text] if text else []


def _where(first: RankEnd, job: Optional[JobSpec], count: int) -> str:
    facts = facts_of(first.rank, first.process, job)
    role = f" ({facts['role']})" if facts.get("role") not in (None, "worker") else ""
    return f"Rank {first.rank} of {count}{role} failed first{place_of(facts)}."


def _about_others(finding: Finding) -> List[str]:
    others = [int(one["rank"]) for one in finding.details.get("consequences") or ()]
    lines = [f"{name_ranks(others)} ended because of it."] if others else []
    if finding.early and finding.weight == FailureWeight.CONSEQUENCE:
        names = name_ranks(finding.early)
        lines.append(f"{names} had ended before, without an error; perhaps the others still needed it.")
    return lines


def _ended_well_before(record: RankExit, first: RankEnd) -> bool:
    return record.get("code") == 0 and int(record.get("ended_boot_ns") or 0) < first.at_boot_ns


def _consequence(end: RankEnd, job: Optional[JobSpec]) -> RankFacts:
    why = "stopped after the first failure" if end.weight == FailureWeight.STOPPED else end.cause.sentence
    return {**facts_of(end.rank, end.process, job), "why": why.splitlines()[0][:300], "log": end.log}


def _with_tail(message: str, details: ErrorDetails) -> str:
    lines = details.get("last_lines")
    return message if not lines else "\n".join([f"{message}{LAST_LINES_TITLE} {details.get('log')}:", *lines])
