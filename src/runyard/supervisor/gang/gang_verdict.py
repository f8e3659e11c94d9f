"""How a run of several supervisors ended: the first failure by weight, then by arrival at the server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from runyard.client.calls.gang import Peer
from runyard.core.formats.plain import from_plain
from runyard.core.statuses import RunStatus
from runyard.supervisor.diagnosis.diagnosis import Finding, error_of, finding_of
from runyard.supervisor.diagnosis.rank_ends import NO_ANSWER
from runyard.supervisor.lifecycle.outcome import Outcome
from runyard.supervisor.lifecycle.stopping import RANK_FAILED, Stop
from runyard.supervisor.processes.exits import STOPPED

MOST_BYTES = 100_000  # of what a node says about its end
_CUTS = ((8000, 300), (1000, 100), (200, 30))  # longest text, most items of a list: the first that is small enough
NODE_LOST = "NodeLost"
LATER = 1 << 30  # of a failure that the server was not told of by itself


class Told(NamedTuple):
    """One node's finding, and when the server heard of its failure."""

    order: int
    finding: Finding


def decide_for_all(outcome: Outcome, stop: Optional[Stop], own: Peer, others: Sequence[Peer]) -> Outcome:
    """Return the end of the run, by what node 0 found and what the others told.

    `stop` is what ended node 0's own part, if anything did.
    """
    if stop is not None and stop.reason != RANK_FAILED:
        return outcome
    told = _list_told(outcome, own, others)
    if told:
        finding = choose(told)
        return Outcome(RunStatus.FAILED, error_of(finding), finding)
    ends = [peer.facts.get("ended", {}).get("status") for peer in others]
    return Outcome(RunStatus.CANCELED) if RunStatus.CANCELED.value in ends else outcome


def choose(told: Sequence[Told]) -> Finding:
    """Return the first one, with all others as its consequences."""
    ordered = sorted(told, key=lambda one: (one.finding.weight, one.order))
    missing = _missing(ordered)
    first = missing or ordered[0]
    others = [one.finding for one in ordered if one is not first]
    consequences = [*first.finding.details.get("consequences", ())]
    for other in others:
        consequences += [_consequence(other), *other.details.get("consequences", ())]
    consequences = [one for one in consequences if "rank" in one]
    ranks = {one["rank"] for one in [first.finding.details, *consequences] if "rank" in one}
    details = {**first.finding.details, "consequences": consequences, "failed_ranks": sorted(ranks)}
    early = sorted({rank for finding in [first.finding, *others] for rank in finding.early})
    about = first.finding.about if missing is None else [NO_ANSWER, *first.finding.about[1:2]]
    return replace(first.finding, about=about, details=details, early=early)


def shortened(value: Any) -> Any:
    """Return what fits into one message, whatever a program wrote."""
    for longest, most in _CUTS:
        cut = _cut(value, longest, most)
        if len(json.dumps(cut)) <= MOST_BYTES:
            return cut
    return {"status": value["status"]}


def _cut(value: Any, longest: int, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[: longest // 2]} … {value[-longest // 2 :]}"
    if isinstance(value, Mapping):
        return {str(name): _cut(item, longest, most) for name, item in list(value.items())[:most]}
    if isinstance(value, (list, tuple)):
        return [_cut(item, longest, most) for item in value[:most]]
    return value


def _list_told(outcome: Outcome, own: Peer, others: Sequence[Peer]) -> List[Told]:
    told = []
    if outcome.status is RunStatus.FAILED:
        finding = outcome.finding or finding_of(outcome.error or {})
        told.append(Told(own.failed_order or LATER, finding))
    for peer in others:
        said = peer.facts.get("ended", {}).get("finding")
        if said:
            told.append(Told(peer.failed_order or LATER, from_plain(Finding, said)))
        elif peer.lost:
            told.append(Told(peer.failed_order or LATER, _lost(peer)))
    return told


def _lost(peer: Peer) -> Finding:
    ready = peer.facts.get("ready") or {}
    address = f", {ready['address']}" if ready.get("address") else ""
    about = f"Node {peer.rank} ({peer.host or 'unknown host'}{address}) was lost: {peer.lost}"
    details: Dict[str, Any] = {"kind": "node lost", "node": peer.host, "node_rank": peer.rank}
    return Finding(NODE_LOST, [about], {**details, "address": ready.get("address", "")})


def _missing(ordered: Sequence[Told]) -> Optional[Told]:
    """Return a node whose ranks still ran when all the others had given up waiting for somebody."""
    failed = [one for one in ordered if one.finding.weight < STOPPED]
    stopped = [one for one in ordered if one.finding.weight == STOPPED]
    return stopped[0] if failed and stopped and all(one.finding.waited for one in failed) else None


def _consequence(finding: Finding) -> Dict[str, Any]:
    details = finding.details
    kept: Dict[str, Any] = {name: details[name] for name in ("rank", "role", "node", "address") if name in details}
    why = "stopped after the first failure" if finding.weight == STOPPED else finding.about[0]
    return {**kept, "why": why.splitlines()[0][:300], "log": details.get("log", "")}
