"""What a supervisor does for a run of mpirun: it serves the launch agent, and decides when all ranks have ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence

from runyard.core.specs import JobSpec
from runyard.launchers.base import MPIRUN, nodes_of
from runyard.launchers.mpi import daemon_rank
from runyard.supervisor.gang.peers import Peers
from runyard.supervisor.mpi.agent_server import AgentServer, exit_code
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.processes.exits import has_failed
from runyard.supervisor.processes.keeper import ProcessOwner, ReaperGone
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.run_files import RankExit

LAST_WORDS_S = 5.0  # how long mpirun may take to end by itself after its ranks


class MpiJob:
    """mpirun's part of a run on this node.

    mpirun runs on node 0; a node with its own supervisor starts its daemon itself. The supervisor's main thread calls
    the public methods. `_start` also runs in the thread `agent`, for a launch agent.
    """

    def __init__(self, folder: RunFolder, job: JobSpec, keeper: ProcessOwner, peers: Peers) -> None:
        self._keeper = keeper
        self._peers = peers
        self._agents = AgentServer(folder, self._start)
        self._here = {daemon_rank(node.rank) for node in nodes_of(job)}
        self._starter = MPIRUN if peers.leads else daemon_rank(job.node_rank)  # the starter of this node's ranks
        self._asked: Dict[str, str] = {}
        self._done_at: Optional[float] = None

    def begin(self) -> None:
        """Serve the launch agent, on node 0. Called before the launch, and again by every later supervisor."""
        if self._peers.leads:
            self._agents.listen(self._peers.nodes())

    def step(self, *, is_stopping: bool) -> None:
        """Take in starts and ends of ranks; answer launch agents (node 0) or start the daemon (others).

        The supervisor calls this in every round of its watch.
        """
        self._keeper.look()
        if not self._peers.leads:
            return self._serve_mpirun(is_stopping=is_stopping)
        elsewhere: List[RankExit] = [{"rank": rank, "code": code} for rank, code in self._peers.daemon_exits().items()]
        return self._agents.tell([*self._keeper.exits, *elsewhere])

    def is_over(self, counting: Sequence[int], *, is_stopping: bool) -> bool:
        """Return whether no further rank ends here: all have ended, or their starter and all that it started have.

        After a stop, a daemon that was never asked for starts no ranks any more.
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
        """Return whether mpirun ended long before the ranks on other nodes, which it may never have started."""
        ended = next((one for one in self._keeper.exits if one["rank"] == MPIRUN), None)
        if ended is None or self._peers.are_done():
            return False
        return (boot_ns() - int(ended.get("ended_boot_ns") or 0)) / 1e9 > LAST_WORDS_S

    def _start(self, rank: int, line: str) -> bool:
        """Have a daemon started, here or through the supervisor of its node; False when the reaper is gone."""
        if rank not in self._here:
            self._asked = {**self._asked, str(rank): line}
            self._peers.tell(daemons=self._asked)
            return True
        try:
            return self._keeper.start(rank, line)
        except ReaperGone:
            return False  # the main thread notices it, too

    def _serve_mpirun(self, *, is_stopping: bool) -> None:
        """Start this node's daemon when mpirun on node 0 asks for it, and report how the daemon ended."""
        line = self._peers.daemons().get(self._starter)
        ended = next((record for record in self._keeper.exits if record["rank"] == self._starter), None)
        if ended is not None:
            self._peers.tell(daemon_exits={str(self._starter): exit_code(ended)})
        elif line is None or any(entry["rank"] == self._starter for entry in self._keeper.ranks):
            return
        elif is_stopping or not self._start(self._starter, line):
            self._peers.tell(daemon_exits={str(self._starter): 1})
