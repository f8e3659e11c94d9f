"""Why a run failed: the rank that failed first, where, why, the lines that show it, and who ended because of it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import JobSpec
from runyard.supervisor.diagnosis.causes import signal_name
from runyard.supervisor.diagnosis.rank_ends import RankEnd, count_ranks, list_failures
from runyard.supervisor.processes.exits import CAUSE, CONSEQUENCE, HELPER, STOPPED
from runyard.supervisor.run_folder import RunFolder

FORMAT = 1
LAST_LINES_TITLE = "\n\nLast lines of"
MOST_SHOWN = 12  # ranks that a sentence names


@dataclass(frozen=True)
class Finding:
    """What one supervisor found out about a failure. Nodes with supervisors of their own compare theirs."""

    code: str
    about: List[str]  # sentences on who failed first, and why
    details: Dict[str, Any] = field(default_factory=dict)
    weight: int = CAUSE
    early: List[int] = field(default_factory=list)  # ranks that had ended before, without an error
    waited: bool = False  # all that failed had waited in vain for somebody


def describe_failure(
    folder: RunFolder,
    launch: Mapping[str, Any],
    exits: Sequence[Mapping[str, Any]],
    *,
    job: Optional[JobSpec] = None,
    stopped_boot_ns: Optional[int] = None,
) -> Dict[str, Any]:
    """Return the error of a run one of whose processes failed: `{code, message, details}`."""
    return error_of(find_failure(folder, launch, exits, job=job, stopped_boot_ns=stopped_boot_ns))


def find_failure(
    folder: RunFolder,
    launch: Mapping[str, Any],
    exits: Sequence[Mapping[str, Any]],
    *,
    job: Optional[JobSpec] = None,
    stopped_boot_ns: Optional[int] = None,
) -> Finding:
    failures = list_failures(folder, launch, exits, stopped_boot_ns=stopped_boot_ns)
    first, others = failures[0], [end for end in failures[1:] if end.weight != HELPER]
    return Finding(
        code="ExitCodeUnknown" if first.record.get("unknown") else "UserError",
        about=_about_first(first, launch, job),
        details=_details(first, others, job),
        weight=first.weight,
        early=[int(one["rank"]) for one in exits if _ended_well_before(one, first)],
        waited=all(end.waited_in_vain for end in failures if end.weight < STOPPED),
    )


def error_of(finding: Finding) -> Dict[str, Any]:
    message = "\n".join([*finding.about, *_about_others(finding)])
    return {"code": finding.code, "message": _with_tail(message, finding.details), "details": finding.details}


def finding_of(error: Mapping[str, Any], *, weight: int = CAUSE) -> Finding:
    """Return an error that was not found by looking at ranks, to be compared with those of other nodes."""
    about = str(error.get("message", "")).partition(LAST_LINES_TITLE)[0]
    return Finding(str(error.get("code") or "SystemFailure"), [about], dict(error.get("details") or {}), weight)


def document_of(error: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what `diagnosis.json` holds: the error without the log's last lines, which are in the log."""
    message = str(error.get("message", "")).partition(LAST_LINES_TITLE)[0]
    details = {key: value for key, value in (error.get("details") or {}).items() if key != "last_lines"}
    return {"format": FORMAT, "code": error.get("code"), "message": message, **details}


def facts_of(rank: int, process: Mapping[str, Any], job: Optional[JobSpec]) -> Dict[str, Any]:
    """Return which process it was, and where."""
    facts: Dict[str, Any] = {"rank": rank}
    if process.get("role"):
        facts["role"] = process["role"]
    number = int(process.get("node_rank") or 0)
    node = next((one for one in job.nodes if one.rank == number), None) if job is not None else None
    if node is not None:
        facts.update(node=node.name, address=node.address)
    return facts


def name_ranks(ranks: Sequence[int]) -> str:
    """Return `Rank 1`, `Ranks 1 and 2`, `Ranks 1, 2 and 3`, …"""
    shown = [str(rank) for rank in sorted(ranks)]
    if len(shown) > MOST_SHOWN:
        shown = [*shown[: MOST_SHOWN - 1], f"{len(shown) - MOST_SHOWN + 1} more"]
    if len(shown) == 1:
        return f"Rank {shown[0]}"
    return f"Ranks {', '.join(shown[:-1])} and {shown[-1]}"


def place_of(facts: Mapping[str, Any]) -> str:
    """Return ` on node-1 (127.0.1.2)`, or nothing when no node is known."""
    return f" on {facts['node']} ({facts['address']})" if facts.get("node") else ""


def _details(first: RankEnd, others: Sequence[RankEnd], job: Optional[JobSpec]) -> Dict[str, Any]:
    details = {
        **facts_of(first.rank, first.process, job),
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


def _about_first(first: RankEnd, launch: Mapping[str, Any], job: Optional[JobSpec]) -> List[str]:
    advice = [first.cause.advice] if first.cause.advice else []
    if first.weight == HELPER:
        role = str(first.process.get("role") or "A process of ours")
        return [first.cause.sentence.replace("User program", role, 1), *advice]
    count = count_ranks(launch)
    where = [_where(first, job, count)] if count > 1 else []
    return [first.cause.sentence, *where, *advice]


def _where(first: RankEnd, job: Optional[JobSpec], count: int) -> str:
    facts = facts_of(first.rank, first.process, job)
    role = f" ({facts['role']})" if facts.get("role") not in (None, "worker") else ""
    return f"Rank {first.rank} of {count}{role} failed first{place_of(facts)}."


def _about_others(finding: Finding) -> List[str]:
    others = [int(one["rank"]) for one in finding.details.get("consequences") or ()]
    lines = [f"{name_ranks(others)} ended because of it."] if others else []
    if finding.early and finding.weight == CONSEQUENCE:
        names = name_ranks(finding.early)
        lines.append(f"{names} had ended before, without an error; perhaps the others still needed it.")
    return lines


def _ended_well_before(record: Mapping[str, Any], first: RankEnd) -> bool:
    return record.get("code") == 0 and int(record.get("ended_boot_ns") or 0) < first.at_boot_ns


def _consequence(end: RankEnd, job: Optional[JobSpec]) -> Dict[str, Any]:
    why = "stopped after the first failure" if end.weight == STOPPED else end.cause.sentence
    return {**facts_of(end.rank, end.process, job), "why": why.splitlines()[0][:300], "log": end.log}


def _with_tail(message: str, details: Mapping[str, Any]) -> str:
    lines = details.get("last_lines")
    return message if not lines else "\n".join([f"{message}{LAST_LINES_TITLE} {details.get('log')}:", *lines])
