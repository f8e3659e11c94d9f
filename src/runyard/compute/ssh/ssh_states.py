"""How a job stands, from what the machines say that may have a part of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.compute.base import Cause, JobReport, JobState

_ORDER = (JobState.ALIVE, JobState.ORPHANED, JobState.WAITING, JobState.GONE)


@dataclass(frozen=True)
class NodeStand:
    """One node's part of a job, as the machine says that it was started on."""

    host: str
    rank: int
    count: int  # of the whole job
    state: JobState
    why: str = ""
    cause: Cause = Cause.UNKNOWN


def report_of(nodes: Sequence[NodeStand], silent: Mapping[str, str]) -> JobReport:
    """Return how the job stands. `silent`: hosts that may have a part of it and do not answer, with the reason."""
    found = _by_rank(nodes)
    missing = silent if not nodes or len(found) < max(node.count for node in nodes) else {}
    states = {node.state for node in found}
    lost = [node for node in found if node.state is JobState.GONE and node.cause is Cause.NODE_LOST]
    if lost:  # the others would wait for it for ever
        return JobReport(JobState.GONE, _say(lost, JobState.GONE, "is gone"), Cause.NODE_LOST)
    if JobState.ORPHANED in states:
        return JobReport(JobState.ORPHANED, _say(found, JobState.ORPHANED, "has no supervisor"))
    if JobState.ALIVE in states:
        return JobReport(JobState.ALIVE, _silence(missing) or _say(found, JobState.GONE, "is gone"))
    if missing:
        return JobReport(JobState.UNKNOWN, _silence(missing))
    if JobState.WAITING in states:
        return JobReport(JobState.WAITING, _say(found, JobState.WAITING, "gets ready"))
    cause = Cause.ENDED if any(node.cause is Cause.ENDED for node in found) else Cause.UNKNOWN
    return JobReport(JobState.GONE, _say(found, JobState.GONE, ""), cause)


def _by_rank(nodes: Sequence[NodeStand]) -> list[NodeStand]:
    """Return one entry for each rank: a host that was told again after a failure has the older one too."""
    best: dict[int, NodeStand] = {}
    for node in nodes:
        known = best.get(node.rank)
        if known is None or _rank(node) < _rank(known):
            best[node.rank] = node
    return [best[rank] for rank in sorted(best)]


def _rank(node: NodeStand) -> tuple[int, bool]:
    """Return its place in the order of what says most; one that came second and was sent away says least."""
    return _ORDER.index(node.state), node.cause is Cause.NODE_LOST


def _say(nodes: Sequence[NodeStand], state: JobState, default: str) -> str:
    said = [(node.host, node.why or default) for node in nodes if node.state is state]
    return "; ".join(f"{host}: {why}" for host, why in said if why)


def _silence(silent: Mapping[str, str]) -> str:
    return "; ".join(f"{host} does not answer: {why}" for host, why in silent.items())
