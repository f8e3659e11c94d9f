"""The process owner of a run whose reaper died: the supervisor watches and kills the processes itself."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from runyard.core.machine.facts import boot_id, container_id
from runyard.launchers.base import BY_MPIRUN, BY_REAPER
from runyard.supervisor.proc import (
    ProcessEntry,
    boot_ns,
    descendants,
    is_alive,
    list_processes,
    open_pidfd,
    send_signal,
)
from runyard.supervisor.processes.exits import Exit, container_exit, find_exit, read_end, read_start
from runyard.supervisor.processes.keeper import ProcessOwner
from runyard.supervisor.processes.killing import ControlGroup, ProcessSweep, find_marked, subtree
from runyard.supervisor.processes.reaper import remove_run_folder
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.run_files import PlannedProcess, RankExit, RankStart


class Adopted(ProcessOwner):
    """Finds the run's processes by start ticks and cookie, and watches them by pidfd.

    Made by `main.adopt`, in a supervisor without a reaper. The processes are not children of the supervisor, so exit
    codes come from exit records, the kernel or the rank itself.
    """

    def __init__(self, folder: RunFolder, cookie: str) -> None:
        self._folder = folder
        self._cookie = cookie
        path = folder.read_object("cgroup.json").get("path")
        self._group: Optional[ControlGroup] = ControlGroup(path) if path else None
        self._poll = select.epoll()
        self._pidfds: Dict[int, int] = {}
        self._sweep: Optional[ProcessSweep] = None
        self.launched = True
        self.ranks = list(folder.read("ranks.json") or ())
        self.exits: List[RankExit] = []
        self.is_empty = False
        # The reaper died while it started these ranks: `ranks.json` lacks them, only their cookie identifies them.
        planned: Sequence[PlannedProcess] = folder.read_object("launch.json").get("processes", ())
        self._plans: Dict[int, PlannedProcess] = {one["rank"]: one for one in planned}
        started = {entry["rank"] for entry in self.ranks}
        sure = {one["rank"] for one in planned if one.get("started_by", BY_REAPER) == BY_REAPER}
        self._unrecorded = sorted(sure - started) if planned or started else [0]
        self._by_mpirun = [one["rank"] for one in planned if one.get("started_by") == BY_MPIRUN]
        self._rebooted = _has_restarted(folder.read_object("claim"))
        for entry in self.ranks:
            self._watch(entry)
        # On a cluster, the ranks were killed together with their reaper: the program did not fail.
        self._wiped = bool(folder.read_object("job.json").get("incarnation")) and not self._is_anyone_alive()

    def fileno(self) -> int:
        """Return the epoll descriptor, readable when a watched rank has ended."""
        return self._poll.fileno()

    def update(self) -> None:
        """Add the exits of ranks that ended and take up ranks that mpirun started; advance a kill. Never waits."""
        for fd, _ in self._poll.poll(0):
            self._poll.unregister(fd)  # else it stays readable; `_ask_kernel` closes it
        known = {record["rank"] for record in self.exits}
        for entry in self.ranks:
            if entry["rank"] not in known and not self._is_alive(entry):
                self.exits.append(self._end_of(entry))
        if self._unrecorded and not self._find_left():
            unknown: RankExit = {"unknown": True, "lost": self._rebooted, "ended_boot_ns": boot_ns()}
            self.exits += [{**unknown, "rank": rank} for rank in self._unrecorded]
            self._unrecorded = []
        self.look()  # last: an exit of mpirun must not be visible before all ranks are
        if self._sweep is not None and self._sweep.step():
            self._sweep = None
            self.is_empty = True

    def launch(self) -> None:
        """Do nothing: a run is adopted only after its launch."""
        pass

    def start(self, rank: int, line: str) -> bool:
        """Return whether the process was started before its reaper died; nothing can start it now."""
        return any(entry["rank"] == rank for entry in self.ranks)

    def look(self) -> None:
        """Take up ranks that mpirun started, from their shims' records. May be repeated."""
        known = {entry["rank"] for entry in self.ranks}
        for rank in self._by_mpirun:
            started = read_start(self._folder, rank) if rank not in known else None
            if started is not None:
                self.ranks.append(started)
                self._watch(started)

    def signal(self, number: int) -> None:
        """Signal every process that is in a rank's process group, and continue it if it is stopped."""
        has_ranks = any(entry["rank"] >= 0 for entry in self.ranks)
        groups = {entry["pid"] for entry in self.ranks if entry["rank"] >= 0 or not has_ranks}
        for entry in self._find_left():
            if entry.group in groups:
                send_signal(entry.pid, entry.start_ticks, number)
                send_signal(entry.pid, entry.start_ticks, signal.SIGCONT)

    def kill(self, *, grace_s: float) -> None:
        """Begin to end all processes of the run; `update` does the work and sets `is_empty`."""
        self.is_empty = False
        self._sweep = ProcessSweep(self._find_left, children=list, group=self._group, grace_s=grace_s)

    def leave(self, *, remove: bool) -> None:
        """Remove the run's cgroup, and its folder if `remove` is set."""
        if self._group is not None:
            self._group.remove()
        if remove:
            remove_run_folder(self._folder)

    def _watch(self, entry: RankStart) -> None:
        if self._rebooted:
            return
        fd = open_pidfd(int(entry["pid"]), int(entry["start_ticks"]))
        if fd is not None:
            self._pidfds[entry["rank"]] = fd
            self._poll.register(fd, select.EPOLLIN)

    def _is_alive(self, entry: RankStart) -> bool:
        if self._rebooted or is_alive(int(entry["pid"]), int(entry["start_ticks"])):
            return not self._rebooted
        is_watched = "shim_pid" in entry and is_alive(int(entry["shim_pid"]), int(entry["shim_start_ticks"]))
        return is_watched and not self._folder.has(f"exits/{entry['rank']}.json")  # the shim is about to write it

    def _end_of(self, entry: RankStart) -> RankExit:
        """Return the exit record of a rank: the reaper's, else the kernel's, else the process's own, else `unknown`."""
        record = read_end(self._folder, entry["rank"])
        if record is not None:
            return record
        end: RankExit = {"rank": entry["rank"], "code": None, "signal": None, "ended_boot_ns": boot_ns()}
        if self._rebooted:
            return {**end, "unknown": True, "lost": True}
        found = self._ask_kernel(entry)
        if found is not None and found.signal == signal.SIGKILL and self._wiped:
            return {**end, "signal": int(signal.SIGKILL), "lost": True}  # the same end as when init had collected it
        if found is not None:
            code, number = container_exit(self._plans.get(entry["rank"], {}), found.code)
            return {**end, "code": code, "signal": number or found.signal}
        code = self._own_word(int(entry["pid"]))
        return {**end, "unknown": True, "lost": self._wiped} if code is None else {**end, "code": code}

    def _is_anyone_alive(self) -> bool:
        return any(self._is_alive(entry) for entry in self.ranks)

    def _ask_kernel(self, entry: RankStart) -> Optional[Exit]:
        fd = self._pidfds.pop(entry["rank"], None)
        try:
            return find_exit(int(entry["pid"]), int(entry["start_ticks"]), fd)
        finally:
            if fd is not None:
                os.close(fd)

    def _own_word(self, pid: int) -> Optional[int]:
        """Return the exit code that the process recorded itself; 1 when it recorded a failure without a code.

        None when there is neither: a process that recorded success may still have failed afterwards.
        """
        exact = self._folder.read_bytes(f"ends/{pid}.code")
        if exact:
            return exact[0]
        own = self._folder.read_object(f"ends/{pid}.json")
        if own.get("code") or own.get("ok") is False or self._folder.read_object(f"exceptions/{pid}.json"):
            return int(own.get("code") or 1)
        return None

    def _find_left(self) -> List[ProcessEntry]:
        """Return the run's living processes: ranks, processes with its cookie or cgroup, and their descendants."""
        if self._rebooted:
            return []
        entries = list_processes()
        ours = subtree(entries, os.getpid())
        found = find_marked(entries, cookie=self._cookie, group=self._group, known=ours)
        ticks = {int(rank["pid"]): int(rank["start_ticks"]) for rank in self.ranks}
        found.update((entry.pid, entry) for entry in entries if ticks.get(entry.pid) == entry.start_ticks)
        for root in list(found):
            found.update((entry.pid, entry) for entry in descendants(entries, root, without=[os.getpid()]))
        return [entry for entry in found.values() if entry.state not in "ZX"]


def _has_restarted(claim: Mapping[str, Any]) -> bool:
    """Return whether the machine, or the container that all of us live in, was started again since the claim."""
    container = claim.get("container")
    return claim.get("boot_id") != boot_id() or (container is not None and container != container_id())
