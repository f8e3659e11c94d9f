"""What the supervisor does for a run that mpirun starts: it serves the launch agent and knows when all is over."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping, Optional, Sequence, Set

from runyard.core.specs import JobSpec
from runyard.launchers.base import MPIRUN, nodes_of
from runyard.supervisor.agent_server import AgentServer
from runyard.supervisor.evidence import read_tail
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.keeper import Keeper, ReaperGone
from runyard.supervisor.rank_ends import has_failed

LOG = "system_logs/mpirun.log"
LAST_WORDS_S = 5.0  # mpirun gets this long to end by itself after its ranks


class MpiJob:
    def __init__(self, folder: RunFolder, job: JobSpec, keeper: Keeper) -> None:
        self._keeper = keeper
        self._agents = AgentServer(folder, nodes_of(job), self._start)
        self._done_at: Optional[float] = None

    def begin(self) -> None:
        """Be there for the launch agent; called before the launch, and again by every later supervisor."""
        self._agents.listen()

    def step(self) -> None:
        self._keeper.look()
        self._agents.tell(self._keeper.exits)

    def is_over(self, counting: Sequence[int]) -> bool:
        """Whether no rank will end any more: all have, or mpirun has and so have those that it had started."""
        ends = {int(record["rank"]): record for record in self._keeper.exits}
        started = {int(entry["rank"]) for entry in self._keeper.ranks}
        if not all(rank in ends for rank in counting):
            return MPIRUN in ends and all(rank in ends for rank in counting if rank in started)
        self._done_at = self._done_at or time.monotonic()
        failed = any(has_failed(ends[rank]) for rank in counting)
        return failed or MPIRUN in ends or time.monotonic() - self._done_at > LAST_WORDS_S

    def _start(self, rank: int, line: str) -> bool:
        try:
            return self._keeper.start(rank, line)
        except ReaperGone:
            return False  # the supervisor's own thread finds out as well


def find_mpirun_fault(
    folder: RunFolder, counting: Set[int], exits: Sequence[Mapping[str, Any]]
) -> Optional[Dict[str, Any]]:
    """Return the error of a run that mpirun itself is the cause of: it was killed before a rank failed, or never
    started one. Otherwise its exit code only repeats what a rank's says.
    """
    own = next((record for record in exits if record["rank"] == MPIRUN), None)
    failed = [record for record in exits if record["rank"] in counting and has_failed(record)]
    if own is None:
        return None
    if own.get("signal") and all(_ended(own) < _ended(record) for record in failed):
        return _fault(folder, own, f"mpirun was killed by signal {own['signal']}, and its ranks ended with it.")
    missing = sorted(counting - {int(record["rank"]) for record in exits})
    if failed or not missing:
        return None
    ranks = ", ".join(str(rank) for rank in missing)
    return _fault(folder, own, f"mpirun ended with exit code {own.get('code')} before it had started rank {ranks}.")


def _ended(record: Mapping[str, Any]) -> int:
    return int(record.get("ended_boot_ns") or 0)


def _fault(folder: RunFolder, own: Mapping[str, Any], sentence: str) -> Dict[str, Any]:
    lines = read_tail(folder.at(LOG), LOG).last()
    details = {"kind": "mpirun", "exit_code": own.get("code"), "log": LOG, "last_lines": lines}
    message = "\n".join([sentence, "", f"Last lines of {LOG}:", *lines]) if lines else sentence
    return {"code": "UserError", "message": message, "details": details}
