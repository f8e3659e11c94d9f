"""A job whose nodes are run by several supervisors: they exchange facts and agree on the run's end.

All facts go through the server, which keeps them in memory. After a restart of the server, each node sends its facts
again. Facts are never withdrawn, so a fact that arrived once stays known. The run's error is the failure with the
lowest weight; among equals, the one that reached the server first.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, cast

from runyard.client.calls.gang import GangCalls, GangNews, Peer
from runyard.core.errors import Conflict
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.specs import JobSpec, NodeSpec
from runyard.core.statuses import RunStatus
from runyard.launchers.base import nodes_of
from runyard.supervisor.diagnosis.diagnosis import NO_ANSWER, Finding, error_of, finding_of
from runyard.supervisor.gang.peers import FindStop, Peers
from runyard.supervisor.lifecycle.layout import Meeting
from runyard.supervisor.lifecycle.outcome import Outcome, before_launch
from runyard.supervisor.lifecycle.stopping import CUT_OFF, RANK_FAILED, SUPERSEDED, Stop
from runyard.supervisor.processes.exits import FailureWeight
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.connection import REFUSALS, REFUSED_FOR_S, Connection
from runyard.supervisor.shipping.loops import ShippingLoop

if TYPE_CHECKING:
    from runyard.core.formats.documents import ErrorDetails, NodeEnd, NodeFacts, RankFacts, RunError
    from runyard.core.formats.run_files import FinalState

MOST_BYTES = 100_000  # most bytes of the fact about a node's end
_CUTS = ((8000, 300), (1000, 100), (200, 30))  # longest text, most items of a list: the first that is small enough
NODE_LOST = "NodeLost"
LATER = 1 << 30  # order of a failure that was not reported to the server as a fact of its own
FILE = "peers.json"
WAIT_S = 5.0  # how long the server holds a request without news: each request is a heartbeat, too
SAY_AGAIN_S = 60.0


class Told(NamedTuple):
    """The finding of one node, and the order in which the server heard of its failure."""

    order: int
    finding: Finding


def decide_for_all(outcome: Outcome, stop: Optional[Stop], own: Peer, others: Sequence[Peer]) -> Outcome:
    """Return the end of the run, from node 0's outcome and the facts of the other nodes. Called on node 0 only.

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
    """Return the finding that is the run's error, with all other findings as its consequences."""
    ordered = sorted(told, key=lambda one: (one.finding.weight, one.order))
    missing = _missing(ordered)
    first = missing or ordered[0]
    others = [one.finding for one in ordered if one is not first]
    consequences = [*first.finding.details.get("consequences", ())]
    for other in others:
        consequences += [_consequence(other), *other.details.get("consequences", ())]
    consequences = [one for one in consequences if "rank" in one]
    ranks = {one["rank"] for one in [first.finding.details, *consequences] if "rank" in one}
    details: ErrorDetails = {**first.finding.details, "consequences": consequences, "failed_ranks": sorted(ranks)}
    early = sorted({rank for finding in [first.finding, *others] for rank in finding.early})
    about = first.finding.about if missing is None else [NO_ANSWER, *first.finding.about[1:2]]
    return replace(first.finding, about=about, details=details, early=early)


def shortened(value: Any) -> Any:
    """Return the facts about an end, cut so that they fit into one message."""
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
    ready = peer.facts.get("ready")
    address = f", {ready['address']}" if ready and ready["address"] else ""
    about = f"Node {peer.rank} ({peer.host or 'unknown host'}{address}) was lost: {peer.lost}"
    details: ErrorDetails = {"kind": "node lost", "node": peer.host, "node_rank": peer.rank}
    details["address"] = ready["address"] if ready else ""
    return Finding(NODE_LOST, [about], details)


def _missing(ordered: Sequence[Told]) -> Optional[Told]:
    """Return the node whose ranks still ran when all other nodes had given up waiting for a rank."""
    failed = [one for one in ordered if one.finding.weight < FailureWeight.STOPPED]
    stopped = [one for one in ordered if one.finding.weight == FailureWeight.STOPPED]
    return stopped[0] if failed and stopped and all(one.finding.waited for one in failed) else None


def _consequence(finding: Finding) -> RankFacts:
    details = finding.details
    why = "stopped after the first failure" if finding.weight == FailureWeight.STOPPED else finding.about[0]
    kept = {name: details[name] for name in ("rank", "role", "node", "address") if name in details}
    return cast("RankFacts", {**kept, "why": why.splitlines()[0][:300], "log": details.get("log", "")})


logger = logging.getLogger(__name__)


Hear = Callable[[Optional[str], "Optional[RunError]", int], None]


class Gang(Peers):
    """The gang of this supervisor. One object lives as long as the supervisor.

    The thread `listen` asks for the other nodes' facts and the thread `speak` sends this node's; `_lock` guards the
    facts. The supervisor's main thread calls the public methods; `tell` is also called by the thread `agent`. `notify`
    wakes the main thread when there is news. `hear` takes the desired state that comes with every answer. `wait`
    returns when there may be news, and `check` raises when the run must not start any more; both run in the main
    thread.
    """

    is_gang = True

    def __init__(
        self,
        folder: RunFolder,
        job: JobSpec,
        connection: Connection,
        *,
        hear: Hear,
        notify: Callable[[], None],
        wait: Callable[[], None],
        check: Callable[[], None],
    ) -> None:
        super().__init__(job)
        self._folder = folder
        self._job = job
        self._connection = connection
        self._calls = GangCalls(connection.client.transport)
        self._hear = hear
        self._notify = notify
        self._wait = wait
        self._check = check
        self._own = next(node for node in nodes_of(job) if node.rank == job.node_rank)
        self._lock = threading.Lock()
        self._facts: NodeFacts = {"host": self._own.name}
        self._is_said = self._is_superseded = False
        self._peers: Dict[int, Peer] = {}
        self._epoch = self._since = ""
        self._refused_since: Optional[float] = None
        self._listening = ShippingLoop("listen", self._listen, every_s=SAY_AGAIN_S)
        self._speaking = ShippingLoop("speak", self._speak, every_s=SAY_AGAIN_S)
        self.leads = job.node_rank == 0
        known = folder.read_object(FILE)
        if known.get("ready"):
            self._facts["ready"] = known["ready"]

    def start(self) -> None:
        """Start both threads."""
        self._listening.start()
        self._speaking.start()

    def tell(self, **facts: Any) -> None:
        """Add facts to those that this node has sent; equal facts are not sent again. Never waits."""
        with self._lock:
            changed = cast("NodeFacts", {**self._facts, **facts})
            if changed == self._facts:
                return
            self._facts, self._is_said = changed, False
        self._speaking.wake()

    def known_ports(self) -> Optional[List[List[int]]]:
        """Return the ports that this node has told the others before, perhaps through an earlier supervisor."""
        ready = self._facts.get("ready")
        return [ready["ports"]] if ready is not None else None

    def meet(self, ports: List[List[int]]) -> Meeting:
        """Tell the others that this node is ready, wait until all are, and return the nodes with their ports."""
        own = to_plain(self._own)
        ready = {**own, "ports": ports[0] if ports else []}
        self._folder.write(FILE, {"ready": ready})  # before the other nodes hear of it: it must not change any more
        self.tell(ready=ready)
        self._wait_for(range(self._job.node_count))
        found = [ready if rank == self._own.rank else self._fact(rank, "ready") for rank in range(self._job.node_count)]
        self._folder.write(FILE, {"ready": ready, "nodes": found})
        return Meeting([from_plain(NodeSpec, one) for one in found], [list(one["ports"]) for one in found])

    def wait_for_first(self) -> None:
        """Wait until node 0 is ready."""
        self._wait_for([0])

    def nodes(self) -> List[NodeSpec]:
        """Return all nodes of the job after they met, also in a restarted supervisor; before, those that run here."""
        known = self._folder.read_object(FILE).get("nodes") or ()
        return [from_plain(NodeSpec, one) for one in known] or super().nodes()

    def have_failed(self) -> bool:
        """Return whether another node has failed or is lost."""
        return any(peer.lost or "failed" in peer.facts for peer in self._others())

    def are_done(self) -> bool:
        """Return whether all ranks that count have ended on the other nodes, or the node is lost."""
        done = {peer.rank for peer in self._others() if peer.lost or {"workers_done", "ended"} & set(peer.facts)}
        return len(done) == self._job.node_count - 1

    def stop(self) -> Optional[Stop]:
        """Return the stop that node 0 decided on; None on node 0."""
        said = None if self.leads else self._fact(0, "stop")
        return from_plain(Stop, {**said, "since_boot_ns": 0}) if said else None

    def daemons(self) -> Dict[int, str]:
        """Return the lines with which mpirun wants its daemons started, by rank."""
        return {int(rank): str(line) for rank, line in (self._fact(0, "daemons") or {}).items()}

    def daemon_exits(self) -> Dict[int, int]:
        """Return the exit codes of mpirun's daemons on the other nodes, by rank."""
        said = [peer.facts.get("daemon_exits") or {} for peer in self._others()]
        return {int(rank): int(code) for exits in said for rank, code in exits.items()}

    def has_lost(self) -> bool:
        """Return whether another node is lost for good."""
        return any(peer.lost for peer in self._others())

    def conclude(self, outcome: Outcome, find_stop: FindStop) -> Outcome:
        """Return the run's end: node 0 waits for the ends of the other nodes and decides; other nodes return theirs.

        When the run failed or was stopped, node 0 does not wait for silent nodes.
        """
        stop = find_stop()
        if not self.leads or (stop is not None and stop.reason in (SUPERSEDED, CUT_OFF)):
            return outcome  # the server deals with the other nodes itself
        is_bad = stop is not None or outcome.status is not RunStatus.COMPLETED
        while self._unfinished():
            if not self._unfinished(but_silent=True) and (is_bad or find_stop() is not None):
                return before_launch(find_stop()) if not is_bad else self._decide(outcome, stop)
            self._wait()
        return self._decide(outcome, stop)

    def _decide(self, outcome: Outcome, stop: Optional[Stop]) -> Outcome:
        own = Peer(0, {"host": self._own.name}, failed_order=self._order_of_own())
        return decide_for_all(outcome, stop, own, self._others())

    def say_farewell(self, final: FinalState) -> None:
        """Send this node's end as a fact, and wait until the run is over or this attempt is superseded."""
        ended: NodeEnd = {"status": final["status"]}
        error = final.get("error")
        if error:
            ended["finding"] = final.get("finding") or to_plain(finding_of(error))
        self.tell(workers_done=True, ended=shortened(ended))
        while not self.is_over and not (self._is_superseded and self._is_said):
            self._wait()

    def _unfinished(self, *, but_silent: bool = False) -> List[int]:
        """Return the ranks of nodes whose end is unknown and that are not lost; `but_silent`: without silent nodes."""
        met = range(self._job.node_count) if self._folder.read_object(FILE).get("nodes") else ()
        with self._lock:
            known = {**{rank: Peer(rank, {}) for rank in met}, **self._peers}
        return [
            peer.rank
            for peer in known.values()
            if peer.rank != self._own.rank
            and not peer.lost
            and "ended" not in peer.facts
            and not (but_silent and peer.silent)
        ]

    def _wait_for(self, ranks: Iterable[int]) -> None:
        """Wait until these nodes are ready. Raises what `check` raises."""
        shown: List[int] = []
        while True:
            missing = [rank for rank in ranks if rank != self._own.rank and self._fact(rank, "ready") is None]
            if not missing:
                return
            if missing != shown:
                shown = missing
                names = ", ".join(f"{rank} ({self._host(rank) or 'not there yet'})" for rank in missing)
                logger.info("waiting for node %s of %d", names, self._job.node_count)
            self._wait()
            self._check()

    def _others(self) -> List[Peer]:
        with self._lock:
            return [peer for rank, peer in sorted(self._peers.items()) if rank != self._own.rank]

    def _fact(self, rank: int, name: str) -> Any:
        with self._lock:
            peer = self._peers.get(rank)
        return peer.facts.get(name) if peer is not None else None

    def _host(self, rank: int) -> str:
        with self._lock:
            peer = self._peers.get(rank)
        return peer.host if peer is not None else ""

    def _order_of_own(self) -> int:
        with self._lock:
            own = self._peers.get(self._own.rank)
        return own.failed_order if own is not None else 0

    def _listen(self) -> bool:
        """Ask once for news of the other nodes; the server may hold the request for 5 s. Runs in thread `listen`."""
        news = self._ask(since=self._since, wait_s=WAIT_S)
        if news is not None:
            self._take(news)
        return news is not None

    def _speak(self) -> bool:
        """Send this node's facts if they changed; True when they changed again meanwhile. Runs in thread `speak`."""
        with self._lock:
            facts = None if self._is_said else dict(self._facts)
        if facts is None:
            return False
        news = self._ask(facts=facts)
        if news is None:
            return False
        with self._lock:
            # If this server has been replaced since, the listener sees another epoch, and all facts are sent again.
            self._epoch, self._is_said = news.epoch, facts == self._facts
            return not self._is_said

    def _ask(self, **said: Any) -> Optional[GangNews]:
        """Send or ask once; None when this supervisor has no part in the run any more."""
        job = self._job

        def speak() -> GangNews:
            return self._calls.speak(
                job.run_id, job.node_rank, attempt=job.attempt, incarnation=job.incarnation, **said
            )

        try:
            news = self._connection.call(speak)
        except Conflict as error:
            self._leave(str(error))
            return None
        except REFUSALS as error:
            self._refused_since = self._refused_since or time.monotonic()
            if time.monotonic() - self._refused_since > REFUSED_FOR_S:
                self._leave(str(error))
                return None
            raise
        self._refused_since = None
        self._is_superseded = self._is_superseded or news.wish.attempt > job.attempt
        self._hear(news.wish.desired, news.wish.desired_error, news.wish.attempt)
        return news

    def _leave(self, why: str) -> None:
        """Note that the server has no use for this node any more."""
        if not self.is_over:
            logger.warning("the server has no use for this node any more: %s", why)
            self.is_over = True
            self._notify()

    def _take(self, news: GangNews) -> None:
        """Merge the news of the other nodes, and send all facts again to a restarted server."""
        with self._lock:
            self._since = news.version
            if news.epoch != self._epoch:
                self._epoch, self._is_said = news.epoch, False
            for peer in news.nodes:
                known = self._peers.get(peer.rank)
                self._peers[peer.rank] = _joined(known, peer) if known is not None else peer
            is_unsaid = not self._is_said
        status = news.wish.status
        self.is_over = self.is_over or (status is not None and status.is_terminal)
        self._notify()
        if is_unsaid:
            self._speaking.wake()


def _joined(known: Peer, said: Peer) -> Peer:
    """Return the newest facts of a node with the older ones added: a restarted server or supervisor may know less."""
    facts: NodeFacts = {**known.facts, **said.facts}
    order = known.failed_order or said.failed_order
    return said._replace(facts=facts, lost=said.lost or known.lost, host=said.host or known.host, failed_order=order)
