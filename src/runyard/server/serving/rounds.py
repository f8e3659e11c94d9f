"""One look at one service: what its replicas did, and what follows. Nothing is done here, only decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from runyard.core.formats.documents import RunError
from runyard.core.records import Run
from runyard.core.webservices import (
    FAILED,
    HEALTHY,
    READY,
    RUNNING,
    STARTING,
    STOPPED,
    SUCCEEDED,
    TRANSITIONING,
    UNHEALTHY,
    ReplicaRef,
    ServiceRevision,
    Webservice,
)
from runyard.server.serving.replicas import replica_run_id
from runyard.server.serving.scaling import Load, wanted_replicas

WARM = timedelta(minutes=10)  # the revision before stays, for a rollback
FAILING_S = 1.5  # a start that failed and has not succeeded for so long has failed
MOST_FAILED = 5  # starts in a row, of a revision that was ready once
RETRY_S = 30.0
AWAY_S = 10.0  # a replica that was connected and is not: another one is started beside it
_SHOWN = 4000


@dataclass
class Memory:
    """What is known about a service's revisions beside the record; a restart begins anew."""

    loads: dict[int, Load] = field(default_factory=dict)
    failing_since: dict[int, float] = field(default_factory=dict)
    retry_at: dict[int, float] = field(default_factory=dict)
    connected: set[int] = field(default_factory=set)  # numbers of replicas that the gateway has seen
    away_since: dict[int, float] = field(default_factory=dict)  # of those that it sees no more


@dataclass(frozen=True)
class Sight:
    """What a round looks at. `live`: the gateway's state of the service, empty while it does not answer."""

    live: Mapping[str, Any]
    find_run: Callable[[str], Run | None]
    now: datetime
    monotonic: float


def look(service: Webservice, sight: Sight, memory: Memory) -> Webservice:
    """Return the service as it shall be: replicas that are wanted or not, revisions, who serves, the states."""
    live = {int(one["number"]): one for one in sight.live.get("revisions", ())}
    requests = int(sight.live.get("requests", 0))
    numbers = _Numbers(service)
    revisions = [
        _look_at(service, one, live.get(one.number, {}), requests, numbers, sight, memory) for one in service.revisions
    ]
    changed = _with_state(_switched(replace(service, revisions=revisions), sight.now))
    if changed.state == HEALTHY and sight.live.get("port_fault"):
        return replace(changed, state=UNHEALTHY, error=_port_error(sight))
    return changed


class _Numbers:
    """Gives out the numbers of replicas; none twice."""

    def __init__(self, service: Webservice) -> None:
        self._last = service.last_replica

    def next(self) -> int:
        self._last += 1
        return self._last

    @property
    def last(self) -> int:
        return self._last


def _look_at(
    service: Webservice,
    revision: ServiceRevision,
    live: Mapping[str, Any],
    requests: int,
    numbers: _Numbers,
    sight: Sight,
    memory: Memory,
) -> ServiceRevision:
    number, workers = revision.number, int(live.get("workers", 0))
    revision, error = _without_ended(revision, sight)
    revision = _without_away(revision, live, sight, memory)
    if workers:
        memory.failing_since.pop(number, None)
        memory.retry_at.pop(number, None)
        revision = replace(revision, failed_starts=0)
    revision = replace(revision, workers=workers, busy=int(live.get("busy", 0)))
    if revision.state == STARTING:
        revision = _judge_start(revision, live, error, sight, memory)
    elif revision.state == READY:
        revision = _judge_ready(service, revision, error, sight, memory)
    asked = int(live.get("in_flight", 0))
    return _with_replicas(service, revision, _wanted(revision, asked, requests, sight, memory), numbers, sight, memory)


def _without_ended(revision: ServiceRevision, sight: Sight) -> tuple[ServiceRevision, RunError | None]:
    """Return the revision without replicas that have ended, and why the last one did that nobody had stopped."""
    kept, failed, error = [], revision.failed_starts, None
    for ref in revision.replicas:
        run = sight.find_run(ref.run_id)
        if run is None or not run.status.is_terminal:
            kept.append(ref)
        elif ref.is_wanted:
            failed += 1
            error = run.error or {"code": "Stopped", "message": f"Replica {ref.number} ended as {run.status}."}
    return replace(revision, replicas=kept, failed_starts=failed), error


def _without_away(revision: ServiceRevision, live: Mapping[str, Any], sight: Sight, memory: Memory) -> ServiceRevision:
    """Want no replica whose connections have been gone for a while: its node may be, which takes longer to be certain.

    Its run is left alone until it has ended or is connected again; so it says itself what became of it.
    """
    if not sight.live:
        return revision  # the gateway does not answer now
    names = {one["name"] for one in live.get("replicas", ()) if one.get("host") or one.get("workers")}
    refs = []
    for ref in revision.replicas:
        if str(ref.number) in names:
            memory.connected.add(ref.number)
            memory.away_since.pop(ref.number, None)
        elif ref.number in memory.connected:
            memory.away_since.setdefault(ref.number, sight.monotonic)
        is_lost = sight.monotonic - memory.away_since.get(ref.number, sight.monotonic) >= AWAY_S
        refs.append(replace(ref, is_wanted=ref.is_wanted and not is_lost))
    return replace(revision, replicas=refs)


def _judge_start(
    revision: ServiceRevision, live: Mapping[str, Any], error: RunError | None, sight: Sight, memory: Memory
) -> ServiceRevision:
    ready = sum(1 for one in live.get("replicas", ()) if one.get("ready"))
    if ready >= revision.first_replicas:
        return replace(revision, state=READY, error=None)
    if sight.live.get("port_fault"):
        return replace(revision, state=FAILED, error=_port_error(sight))
    failure = str(live.get("failure") or "")
    if error is not None and not failure:
        return replace(revision, state=FAILED, error=error)
    if failure:
        since = memory.failing_since.setdefault(revision.number, sight.monotonic)
        if error is not None or sight.monotonic - since >= FAILING_S:
            return replace(revision, state=FAILED, error=_crash(failure))
    return revision


def _judge_ready(
    service: Webservice, revision: ServiceRevision, error: RunError | None, sight: Sight, memory: Memory
) -> ServiceRevision:
    if error is not None and not revision.workers:
        pause = RETRY_S if revision.failed_starts >= MOST_FAILED else 0.5 * 2 ** min(6, revision.failed_starts - 1)
        memory.retry_at[revision.number] = sight.monotonic + pause
        revision = replace(revision, error=error)
    elif revision.workers and revision.error is not None:
        revision = replace(revision, error=None)
    if revision.retire_at is not None and sight.now >= revision.retire_at:
        return replace(revision, state=STOPPED, retire_at=None)
    return revision


def _wanted(revision: ServiceRevision, asked: int, requests: int, sight: Sight, memory: Memory) -> int:
    if revision.state not in (STARTING, READY):
        return 0
    if revision.state == STARTING:
        return revision.first_replicas
    present = sum(ref.is_wanted for ref in revision.replicas)
    if revision.retire_at is not None:
        return min(1, present)  # warm; one that dies is not replaced
    load = memory.loads.setdefault(revision.number, Load(sight.monotonic, sight.monotonic, requests))
    return wanted_replicas(revision.spec, load, now=sight.monotonic, present=present, asked=asked, requests=requests)


def _with_replicas(
    service: Webservice, revision: ServiceRevision, wanted: int, numbers: _Numbers, sight: Sight, memory: Memory
) -> ServiceRevision:
    present = [ref for ref in revision.replicas if ref.is_wanted]
    if len(present) > wanted:
        surplus = {ref.run_id for ref in present[wanted:]}
        refs = [replace(ref, is_wanted=ref.is_wanted and ref.run_id not in surplus) for ref in revision.replicas]
        return replace(revision, replicas=refs)
    if len(present) == wanted or sight.monotonic < memory.retry_at.get(revision.number, 0.0):
        return revision
    made = [numbers.next() for _ in range(wanted - len(present))]
    refs = [ReplicaRef(replica_run_id(service, number), number) for number in made]
    return replace(revision, replicas=[*revision.replicas, *refs])


def _switched(service: Webservice, now: datetime) -> Webservice:
    """Let a revision that has become ready take over from the one of its label, or end the operation that failed."""
    operation = service.operation
    newest = service.revision(operation.revision) if operation is not None and operation.state == RUNNING else None
    if operation is None or newest is None:
        return _counted(service)
    if newest.state == FAILED:
        ended = replace(operation, state=FAILED, error=newest.error)
        return _counted(replace(service, operation=ended, updated_at=now))
    if newest.state != READY:
        return _counted(service)
    label = newest.spec.label
    before = service.current.get(label)
    revisions = [
        replace(one, retire_at=None)
        if one.number == newest.number
        else replace(one, retire_at=now + WARM)
        if one.number == before
        else replace(one, retire_at=now)
        if one.spec.label == label and one.state == READY and one.retire_at is not None
        else one
        for one in service.revisions
    ]
    return _counted(
        replace(
            service,
            revisions=revisions,
            current={**service.current, label: newest.number},
            default=label if operation.makes_default else service.default,
            operation=replace(operation, state=SUCCEEDED),
            updated_at=now,
        )
    )


def _counted(service: Webservice) -> Webservice:
    numbers = [ref.number for one in service.revisions for ref in one.replicas]
    return replace(service, last_replica=max([service.last_replica, *numbers]))


def _with_state(service: Webservice) -> Webservice:
    operation, serving = service.operation, service.serving
    error: RunError | None = None
    if operation is not None and operation.state == FAILED:
        error = operation.error
    if serving is None:
        state = FAILED if operation is not None and operation.state == FAILED else TRANSITIONING
        return replace(service, state=state, error=error)
    if serving.error is not None and not serving.workers:
        return replace(service, state=UNHEALTHY, error=serving.error)
    return replace(service, state=HEALTHY, error=error)


def _port_error(sight: Sight) -> RunError:
    message = (
        f"The service cannot listen on a port of its own. {sight.live['port_fault']} "
        "Choose another port, or none: each service has an address at the gateway too."
    )
    return {"code": "PortTaken", "message": message, "details": {}}


def _crash(text: str) -> RunError:
    shown = text.strip()
    last = next((line.strip() for line in reversed(_traceback(shown).splitlines()) if line.strip()), "")
    if len(shown) > _SHOWN:
        shown = "…" + shown[-_SHOWN:]
    message = f"The entry script does not start: {last}" if last else "The entry script does not start."
    return {"code": "CrashLoopBackOff", "message": f"{message}\n{shown}", "details": {}}


def _traceback(text: str) -> str:
    """Return the part of a worker's report that ends with the exception; the model folder and hints may follow."""
    return text.partition("\nThe model folder ")[0].partition("\nrunyard: ")[0]
