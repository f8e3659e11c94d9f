"""What the supervisor does for a run that mpirun starts: it serves the launch agent and knows when all is over."""

from __future__ import annotations

import time
from typing import Dict, Optional, Sequence

from runyard.core.specs import JobSpec
from runyard.launchers.base import MPIRUN, nodes_of
from runyard.launchers.mpi import daemon_rank
from runyard.supervisor.gang.peers import Peers
from runyard.supervisor.mpi.agent_server import AgentServer, exit_code
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.processes.exits import has_failed
from runyard.supervisor.processes.keeper import ProcessOwner, ReaperGone
from runyard.supervisor.run_folder import RunFolder

LAST_WORDS_S = 5.0  # mpirun gets this long to end by itself after its ranks


class MpiJob:
    """mpirun runs on node 0. Where another supervisor runs a node, it is asked for the daemon there, and starts it."""

    def __init__(self, folder: RunFolder, job: JobSpec, keeper: ProcessOwner, peers: Peers) -> None:
        self._keeper = keeper
        self._peers = peers
        self._agents = AgentServer(folder, self._start)
        self._here = {daemon_rank(node.rank) for node in nodes_of(job)}
        self._starter = MPIRUN if peers.leads else daemon_rank(job.node_rank)  # who starts the ranks that are here
        self._asked: Dict[str, str] = {}
        self._done_at: Optional[float] = None

    def begin(self) -> None:
        """Be there for the launch agent; called before the launch, and again by every later supervisor."""
        if self._peers.leads:
            self._agents.listen(self._peers.nodes())

    def step(self, *, is_stopping: bool) -> None:
        self._keeper.look()
        if not self._peers.leads:
            return self._serve_mpirun(is_stopping=is_stopping)
        elsewhere = [{"rank": rank, "code": code} for rank, code in self._peers.daemon_exits().items()]
        return self._agents.tell([*self._keeper.exits, *elsewhere])

    def is_over(self, counting: Sequence[int], *, is_stopping: bool) -> bool:
        """Whether no rank here will end any more: all have, or who starts them has and so have those that it started.

        Once the run is stopped, a daemon that was never asked for starts none any more.
        """
        ends = {int(record["rank"]): record for record in self._keeper.exits}
        started = {int(entry["rank"]) for entry in self._keeper.ranks}
        if not all(rank in ends for rank in counting):
            is_starter_gone = self._starter in ends or (is_stopping and self._starter not in started)
            return is_starter_gone and all(rank in ends for rank in counting if rank in started)
        self._done_at = self._done_at or time.monotonic()
        failed = any(has_failed(ends[rank]) for rank in counting)
        return failed or self._starter in ends or time.monotonic() - self._done_at > LAST_WORDS_S

    def has_left_early(self) -> bool:
        """Whether mpirun ended long before ranks on other nodes did; they may never have been started."""
        ended = next((one for one in self._keeper.exits if one["rank"] == MPIRUN), None)
        if ended is None or self._peers.are_done():
            return False
        return (boot_ns() - int(ended.get("ended_boot_ns") or 0)) / 1e9 > LAST_WORDS_S

    def _start(self, rank: int, line: str) -> bool:
        if rank not in self._here:
            self._asked = {**self._asked, str(rank): line}
            self._peers.tell(daemons=self._asked)
            return True
        try:
            return self._keeper.start(rank, line)
        except ReaperGone:
            return False  # the supervisor's own thread finds out as well

    def _serve_mpirun(self, *, is_stopping: bool) -> None:
        """Start this node's daemon when mpirun, on node 0, wants it, and tell how it ended."""
        line = self._peers.daemons().get(self._starter)
        ended = next((record for record in self._keeper.exits if record["rank"] == self._starter), None)
        if ended is not None:
            self._peers.tell(daemon_exits={str(self._starter): exit_code(ended)})
        elif line is None or any(entry["rank"] == self._starter for entry in self._keeper.ranks):
            return
        elif is_stopping or not self._start(self._starter, line):
            self._peers.tell(daemon_exits={str(self._starter): 1})
