"""The ranks of one run, as their parent knows them: started once, each end recorded before it is forgotten."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any, Callable, Dict, List, Optional

from runyard.supervisor.cgroups import Group, make_group
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.proc import ProcessEntry, boot_id, boot_ns, oom_kills, read_process, send_signal
from runyard.supervisor.spawn import CANNOT_EXECUTE, NOT_FOUND, start_rank

GATHERINGS = 5  # a process that forks while it is moved leaves a child behind: look again


class Ranks:
    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._boot_id = boot_id()
        self._started: Dict[int, Dict[str, Any]] = {}
        self._exits: Dict[int, Dict[str, Any]] = {}
        self._unwritten: Dict[int, Dict[str, Any]] = {}
        self._by_pid: Dict[int, int] = {}
        self._oom_kills = 0
        self._group_name = ""
        self.group: Optional[Group] = None
        self.launched = False

    def state(self) -> Dict[str, Any]:
        ranks = [self._started[rank] for rank in sorted(self._started)]
        exits = [self._exits[rank] for rank in sorted(self._exits)]
        return {"is": "state", "launched": self.launched, "ranks": ranks, "exits": exits}

    @property
    def is_unwritten(self) -> bool:
        return bool(self._unwritten)

    def launch(self) -> None:
        """Start what `launch.json` says; a second time does nothing."""
        if self.launched:
            return
        self.launched = True
        if not self._folder.mark("launched"):  # an earlier reaper may have started them
            return
        plan = self._folder.read_object("launch.json")
        self._group_name = str(plan.get("cgroup") or "")
        self._oom_kills = oom_kills()
        for process in plan["processes"]:
            self._start(process, int(plan.get("umask", 0o022)))

    def gather(self, find: Callable[[], List[ProcessEntry]]) -> None:
        """Put what lives of the run into a cgroup of its own; what it forks from now on is born there.

        Not at the start: the first move in a while makes the kernel wait up to 20 ms, and forks and execs with it.
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
        """Take the end of a child that is still a zombie; False when it is no rank.

        The record is written before the zombie goes, so a reaper that is killed here loses no exit code.
        """
        rank = self._by_pid.get(pid)
        if rank is None or rank in self._exits:
            return False
        exited = how == os.CLD_EXITED
        self._ended(rank, status if exited else None, None if exited else status)
        _, _, usage = os.wait4(pid, 0)
        rusage = {"user_s": usage.ru_utime, "system_s": usage.ru_stime, "max_rss_kb": usage.ru_maxrss}
        self._exits[rank]["rusage"] = rusage
        self._try_write(f"exits/{rank}.json", self._exits[rank])
        return True

    def write_exits(self) -> None:
        """Write the records that a full disk kept back."""
        for rank in list(self._unwritten):
            if self._try_write(f"exits/{rank}.json", self._unwritten[rank], durable=True):
                del self._unwritten[rank]

    def signal(self, number: int, left: List[ProcessEntry]) -> None:
        """Signal each rank's group, and continue it if it is stopped.

        An uncollected leader keeps its group's id ours; members that outlived theirs are found in `left`.
        """
        orphaned = set()
        for rank, known in self._started.items():
            if rank in self._exits:
                orphaned.add(known["pid"])
            else:
                _signal_group(known["pid"], number)
        for entry in left:
            if entry.group in orphaned:
                send_signal(entry.pid, entry.start_ticks, number)
                send_signal(entry.pid, entry.start_ticks, signal.SIGCONT)

    def _start(self, process: Dict[str, Any], umask: int) -> None:
        rank = int(process["rank"])
        try:
            pid = start_rank(process, folder=self._folder.path, umask=umask)
        except OSError as error:
            self._ended(rank, NOT_FOUND, None, error=f"The process could not be started: {error}.")
            return
        entry = read_process(pid)
        started = {"rank": rank, "pid": pid, "start_ticks": entry.start_ticks if entry else 0}
        self._by_pid[pid] = rank
        self._started[rank] = {**started, "started_boot_ns": boot_ns(), "boot_id": self._boot_id}
        self._try_write("ranks.json", [self._started[known] for known in sorted(self._started)])

    def _ended(self, rank: int, code: Optional[int], number: Optional[int], *, error: str = "") -> None:
        record: Dict[str, Any] = {"rank": rank, "code": code, "signal": number}
        record.update(oom=number == signal.SIGKILL and self._was_oom(), ended_boot_ns=boot_ns(), boot_id=self._boot_id)
        if code in (CANNOT_EXECUTE, NOT_FOUND):
            error = error or self._word_of(rank)
        if error:
            record["error"] = error
        self._exits[rank] = record
        self._unwritten[rank] = record
        self.write_exits()

    def _try_write(self, name: str, value: Any, *, durable: bool = False) -> bool:
        """Write; a full disk or a folder that the program removed must not stop the reaper."""
        try:
            self._folder.write(name, value, durable=durable)
        except OSError as error:
            return error.errno == errno.ENOENT
        return True

    def _was_oom(self) -> bool:
        counted = self.group.oom_kills() if self.group else 0
        return counted > 0 or oom_kills() > self._oom_kills

    def _word_of(self, rank: int) -> str:
        try:
            with open(self._folder.at("exits", f"{rank}.error"), encoding="utf-8") as file:
                return file.read(4096).strip()
        except OSError:
            return ""


def _signal_group(leader: int, number: int) -> None:
    for one in (number, signal.SIGCONT):
        try:
            os.killpg(leader, one)
        except OSError:
            pass
