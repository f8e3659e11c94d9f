"""The ranks of one run as their parent knows them: started once, each exit recorded before its zombie is collected."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, cast

from runyard.core.machine.facts import boot_id
from runyard.launchers.base import BY_AGENT, BY_MPIRUN, BY_REAPER, MPIRUN
from runyard.supervisor.proc import ProcessEntry, boot_ns, is_alive, oom_kills, read_process, send_signal
from runyard.supervisor.processes.exits import container_exit, read_end, read_start
from runyard.supervisor.processes.killing import ControlGroup, make_group
from runyard.supervisor.processes.spawn import CANNOT_EXECUTE, NOT_FOUND, start_rank
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.run_files import LaunchPlan, PlannedProcess, RankExit, RankStart, ResourceUsage
    from runyard.supervisor.processes.keeper import ReaperNews

GATHERINGS = 5  # scans: a process that forks while it is moved leaves a child outside


class Ranks:
    """The reaper's table of ranks: what was planned, started and ended. Only the reaper's thread uses it.

    Starts and exits are also written to the run folder, from which an adopter continues.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._boot_id = boot_id()
        self._started: Dict[int, RankStart] = {}
        self._exits: Dict[int, RankExit] = {}
        self._unwritten: Dict[int, RankExit] = {}
        self._by_pid: Dict[int, int] = {}
        self._planned: Dict[int, PlannedProcess] = {}
        self._umask = 0o022
        self._oom_kills = self._oom_told = 0
        self._group_name = ""
        self.group: Optional[ControlGroup] = None
        self.launched = False
        self.has_strays = False  # processes of the run may live outside of the tree below this reaper
        self.is_killing = False  # a rank that ends by KILL from now on was killed by us, not by the kernel

    def state(self) -> ReaperNews:
        """Return the message with which the reaper tells its supervisor all starts and exits."""
        ranks = [self._started[rank] for rank in sorted(self._started)]
        exits = [self._exits[rank] for rank in sorted(self._exits)]
        return {"is": "state", "launched": self.launched, "ranks": ranks, "exits": exits}

    @property
    def is_unwritten(self) -> bool:
        """Whether an exit record waits for space on the disk."""
        return bool(self._unwritten)

    def launch(self) -> None:
        """Start the processes of `launch.json` that the reaper starts itself. A second launch does nothing."""
        if self.launched:
            return
        self.launched = True
        if not self._folder.mark("launched"):  # an earlier reaper may have started the ranks
            self.has_strays = True
            return
        plan = cast("LaunchPlan", self._folder.read_object("launch.json"))
        self._group_name = str(plan.get("cgroup") or "")
        self.has_strays = "remove" in plan  # a container engine starts them
        self._oom_kills = oom_kills()
        self._umask = int(plan.get("umask", 0o022))
        self._planned = {int(process["rank"]): process for process in plan["processes"]}
        for process in self._of(BY_REAPER):
            self._start(process)

    def start(self, rank: int, line: str) -> None:
        """Start a process that waits for mpirun's launch agent. A second start does nothing."""
        known = rank in self._started or rank in self._exits
        for process in [] if known else self._of(BY_AGENT):
            if process["rank"] == rank:
                self._start({**process, "argv": [*process["argv"], line]})

    def look(self) -> bool:
        """Take in what the shims of ranks that mpirun started wrote; return whether there was news."""
        news = False
        for process in self._of(BY_MPIRUN):
            rank = int(process["rank"])
            if rank not in self._started:
                news = self._take_start(rank) or news
            if rank in self._started and rank not in self._exits:
                news = self._take_end(rank) or news
        return news

    def gather(self, find: Callable[[], List[ProcessEntry]]) -> None:
        """Move the run's living processes into a cgroup of its own; their later children are born there.

        The reaper does this after the launch: a move can make the kernel hold up forks and execs for up to 20 ms.
        """
        self.group = make_group(self._group_name) if self._group_name else None
        if self.group is None:
            return
        self._try_write("cgroup.json", {"path": self.group.path})
        for _ in range(GATHERINGS):
            outside = {entry.pid for entry in find()} - set(self.group.members())
            if not outside:
                return
            for pid in outside:
                self.group.add(pid)

    def collect(self, pid: int, how: int, status: int) -> bool:
        """Record the end of a child that is still a zombie, then collect it; False when the child is no rank.

        The record is written first, so a reaper that is killed in between loses no exit code.
        """
        rank = self._by_pid.get(pid)
        if rank is None or rank == MPIRUN:
            # An unknown child may be a rank whose shim was killed. And all ranks must be known before mpirun's exit is.
            self.look()
            rank = self._by_pid.get(pid)
        if rank is None or rank in self._exits:
            return False
        if how == os.CLD_EXITED:
            self._ended(rank, *container_exit(self._planned.get(rank, {}), status))
        else:
            self._ended(rank, None, status)
        _, _, usage = os.wait4(pid, 0)
        rusage: ResourceUsage = {"user_s": usage.ru_utime, "system_s": usage.ru_stime, "max_rss_kb": usage.ru_maxrss}
        self._exits[rank]["rusage"] = rusage
        self._try_write(f"exits/{rank}.json", self._exits[rank])
        return True

    def write_exits(self) -> None:
        """Write the exit records that a full disk held back. The reaper calls this in every round."""
        for rank in list(self._unwritten):
            if self._try_write(f"exits/{rank}.json", self._unwritten[rank], durable=True):
                del self._unwritten[rank]

    def signal(self, number: int, left: List[ProcessEntry]) -> None:
        """Send a signal to each rank's process group, and continue stopped ones.

        `left` are the run's living processes: among them are members of groups whose leader has ended. mpirun and its
        daemons end with their ranks, so they get the signal only while no rank has started. A container runtime
        forwards every signal, and writes an error into the program's log when one arrives after the end: it gets no
        CONT unless something is stopped.
        """
        self.look()
        self.is_killing = self.is_killing or number == signal.SIGKILL
        orphaned = set()
        starts_ranks = any(rank >= 0 for rank in self._started)
        is_stopped = any(entry.state in "tT" for entry in left)
        for rank, known in self._started.items():
            if rank in self._exits:
                orphaned.add(known["pid"])
            elif (rank >= 0 or not starts_ranks) and self._is_ours(known):
                _signal_group(known["pid"], number, wake=is_stopped or not self._is_contained(rank))
        for entry in left:
            if entry.group in orphaned:
                send_signal(entry.pid, entry.start_ticks, number)
                send_signal(entry.pid, entry.start_ticks, signal.SIGCONT)

    def _is_contained(self, rank: int) -> bool:
        return bool(self._planned.get(rank, {}).get("contained"))

    def _of(self, starter: str) -> List[PlannedProcess]:
        return [one for one in self._planned.values() if one.get("started_by", BY_REAPER) == starter]

    def _start(self, process: PlannedProcess) -> None:
        rank = int(process["rank"])
        try:
            pid = start_rank(process, folder=self._folder.path, umask=self._umask)
        except OSError as error:
            self._ended(rank, NOT_FOUND, None, error=f"The process could not be started: {error}.")
            return
        entry = read_process(pid)
        started: RankStart = {"rank": rank, "pid": pid, "start_ticks": entry.start_ticks if entry else 0}
        self._note_start({**started, "started_boot_ns": boot_ns(), "boot_id": self._boot_id})

    def _note_start(self, started: RankStart) -> None:
        rank = int(started["rank"])
        self._by_pid[int(started["pid"])] = rank
        self._started[rank] = started
        self._try_write("ranks.json", [self._started[known] for known in sorted(self._started)])

    def _is_ours(self, known: RankStart) -> bool:
        """Return whether the pid still means that process: a child that is not collected, or a living process."""
        return "shim_pid" not in known or is_alive(int(known["pid"]), int(known["start_ticks"]))

    def _take_start(self, rank: int) -> bool:
        started = read_start(self._folder, rank)
        if started is not None:
            self._note_start(started)
        return started is not None

    def _take_end(self, rank: int) -> bool:
        known = self._started[rank]
        # Checked before the record is read: a shim that is gone has written the record, or never will.
        is_watched = is_alive(int(known["shim_pid"]), int(known["shim_start_ticks"]))
        is_gone = read_process(int(known["pid"])) is None
        record = read_end(self._folder, rank)
        if record is None and (is_watched or not is_gone):
            return False
        if record is None:
            record = {"rank": rank, "unknown": True, "ended_boot_ns": boot_ns(), "boot_id": self._boot_id}
        oom = record.get("signal") == signal.SIGKILL and self._was_oom()
        self._exits[rank] = {**record, "oom": oom}
        return True

    def _ended(self, rank: int, code: Optional[int], number: Optional[int], *, error: str = "") -> None:
        oom = number == signal.SIGKILL and self._was_oom()
        record: RankExit = {"rank": rank, "code": code, "signal": number, "oom": oom}
        record.update({"ended_boot_ns": boot_ns(), "boot_id": self._boot_id})
        if code in (CANNOT_EXECUTE, NOT_FOUND):
            error = error or self._word_of(rank)
        if error:
            record["error"] = error
        self._exits[rank] = record
        self._unwritten[rank] = record
        self.write_exits()

    def _try_write(self, name: str, value: Any, *, durable: bool = False) -> bool:
        """Write a file; False on a full disk. A removed folder counts as written: nothing may stop the reaper."""
        try:
            self._folder.write(name, value, durable=durable)
        except OSError as error:
            return error.errno == errno.ENOENT
        return True

    def _was_oom(self) -> bool:
        """Return whether the kernel killed a process because memory ran out; each of its kills counts for one rank.

        The kernel counts for the whole machine, so its counter proves nothing once we kill ranks ourselves.
        """
        if self.is_killing:
            return False
        counted = max(self.group.oom_kills() if self.group else 0, oom_kills() - self._oom_kills)
        if counted <= self._oom_told:
            return False
        self._oom_told += 1
        return True

    def _word_of(self, rank: int) -> str:
        try:
            with open(self._folder.at("exits", f"{rank}.error"), encoding="utf-8") as file:
                return file.read(4096).strip()
        except OSError:
            return ""


def _signal_group(leader: int, number: int, *, wake: bool) -> None:
    for one in (number, signal.SIGCONT) if wake else (number,):
        try:
            os.killpg(leader, one)
        except OSError:
            pass
