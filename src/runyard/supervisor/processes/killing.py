"""Ends all processes of a run: finds them, sends TERM, waits, sends KILL, and scans again until none is left.

Processes are found below the reaper, by the run's cookie, and in the run's cgroup v2 group where the kernel allows one.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from runyard.supervisor.proc import (
    ProcessEntry,
    boot_ns,
    descendants,
    has_cookie,
    list_processes,
    read_process,
    send_signal,
)

if TYPE_CHECKING:
    from runyard.core.formats.run_files import RankStart

NO_LIMIT = 1 << 60  # cgroup v1 writes a huge number where there is no limit
LOOKS = 2  # scans of /proc in a row that must find nothing
GIVE_UP_S = 60.0  # on a process that cannot be killed
ROUNDS = 20  # of kills per step, against a process that forks faster than /proc can be read


class ControlGroup:
    """The cgroup of a run. Every method is harmless when the group is gone."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def procs(self) -> str:
        """The path of the file that lists the members."""
        return os.path.join(self.path, "cgroup.procs")

    def members(self) -> List[int]:
        """Return the pids in the group itself, not below it."""
        return [int(line) for line in _read(self.procs).split() if line.isdigit()]

    def add(self, pid: int) -> bool:
        """Move a process into the group; False when the kernel refuses."""
        return _write(self.procs, str(pid))

    def is_populated(self) -> bool:
        """Return whether a process lives in the group or below it, by the kernel's count."""
        return "populated 1" in _read(os.path.join(self.path, "cgroup.events"))

    def kill(self) -> bool:
        """Kill all members at once; False on kernels before 5.14, which cannot."""
        return _write(os.path.join(self.path, "cgroup.kill"), "1")

    def oom_kills(self) -> int:
        """Return how many members the kernel has killed because memory ran out."""
        for line in _read(os.path.join(self.path, "memory.events")).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def remove(self) -> None:
        """Remove the group; an occupied group stays."""
        try:
            os.rmdir(self.path)
        except OSError:
            pass


def make_group(name: str) -> Optional[ControlGroup]:
    """Make or find the group `name` below this process's group; None where that is not allowed."""
    own = own_group_folder()
    if own is None:
        return None
    path = os.path.join(own, name)
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except OSError:
        return None
    return ControlGroup(path) if os.access(os.path.join(path, "cgroup.procs"), os.W_OK) else None


def own_group_folder() -> Optional[str]:
    """Return the folder of this process's cgroup v2 group, None without cgroup v2."""
    mount = _mount_point()
    for line in _read("/proc/self/cgroup").splitlines():
        if mount is not None and line.startswith("0::/"):
            return os.path.join(mount, line[4:])
    return None


def memory_limit() -> Optional[int]:
    """Return the memory limit in bytes of this process's cgroup and those above it; None without a limit."""
    found = [_limit(folder, name) for folder, name in _memory_folders()]
    limits = [limit for limit in found if limit is not None and limit < NO_LIMIT]
    return min(limits) if limits else None


def _memory_folders() -> Iterator[Tuple[str, str]]:
    """Yield the folders of our memory cgroup and of those above it, with the name of the limit's file."""
    first, second = _mount_point("cgroup", "memory"), _mount_point()
    for line in _read("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        mount, name = (second, "memory.max") if number == "0" else (first, "memory.limit_in_bytes")
        if mount is None or (number != "0" and "memory" not in controllers.split(",")):
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):
            yield os.path.join(mount, *parts[:depth]), name


def _limit(folder: str, name: str) -> Optional[int]:
    text = _read(os.path.join(folder, name)).strip()
    return int(text) if text.isdigit() else None


def _mount_point(kind: str = "cgroup2", controller: str = "") -> Optional[str]:
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        words = after.split()
        if words[:1] == [kind] and (not controller or controller in words[-1].split(",")):
            return before.split()[4]
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return False
    return True


Find = Callable[[], List[ProcessEntry]]
Children = Callable[[], List[int]]


class ProcessSweep:
    """Ends all processes that `find` returns. Call `step` until it returns True; a step never waits.

    With a grace, processes get TERM first. Then each step sends KILL again, because a killed process may just have
    forked. `children` lists the children of this process. They stay zombies until collected, so their pids cannot be
    reused, and a process that forks itself again and again is always one of them or below one.

    Used by the reaper's thread, and by a supervisor without a reaper.
    """

    def __init__(self, find: Find, *, children: Children, group: Optional[ControlGroup], grace_s: float) -> None:
        self._find = find
        self._children = children
        self._group = group
        self._kill_at = boot_ns() + int(grace_s * 1e9)
        self._asked = False
        self._empty_looks = 0

    def step(self) -> bool:
        """Scan once and send what is due; return True when no process is left."""
        left = self._find()
        if not left and self._is_proven():
            return True
        if boot_ns() >= self._kill_at:
            self._kill(left)
        elif not self._asked:
            self._asked = True
            for entry in left:
                stop_gently(entry)
        return False

    def _is_proven(self) -> bool:
        """Return whether enough scans in a row found nothing: a single scan can miss a process that just forked."""
        self._empty_looks += 1
        if self._children() or (self._group is not None and self._group.is_populated()):
            self._empty_looks = 0
        return self._empty_looks >= LOOKS

    def _kill(self, left: List[ProcessEntry]) -> None:
        if self._group is not None:
            self._group.kill()
        for _ in range(ROUNDS):
            for pid in self._children():
                os.kill(pid, signal.SIGKILL)
        for entry in left:
            send_signal(entry.pid, entry.start_ticks, signal.SIGKILL)


def end_marked(ranks: Sequence[RankStart], *, cookie: str) -> None:
    """Kill the processes of a run that has neither folder nor reaper any more. Waits up to 60 s."""
    known = {int(rank["pid"]): int(rank["start_ticks"]) for rank in ranks}

    def find() -> List[ProcessEntry]:
        entries = [entry for entry in list_processes() if entry.state not in "ZX"]
        found = find_marked(entries, cookie=cookie, group=None, known={os.getpid()})
        found.update((entry.pid, entry) for entry in entries if known.get(entry.pid) == entry.start_ticks)
        return list(found.values())

    sweep = ProcessSweep(find, children=list, group=None, grace_s=0.0)
    give_up_at = time.monotonic() + GIVE_UP_S
    while not sweep.step() and time.monotonic() < give_up_at:
        time.sleep(0.02)


def stop_gently(entry: ProcessEntry) -> None:
    """Send TERM, and CONT so that a stopped process can act on it."""
    send_signal(entry.pid, entry.start_ticks, signal.SIGTERM)
    send_signal(entry.pid, entry.start_ticks, signal.SIGCONT)


def find_below(
    root: int, *, keeper: int, cookie: str, group: Optional[ControlGroup], everywhere: bool
) -> List[ProcessEntry]:
    """Return the run's living processes: below the reaper `root` without its supervisor, and in the run's cgroup.

    `everywhere`: look through all processes of the machine, too, for those that are marked as the run's. That is needed
    only when one may have left the tree below the reaper, which was not a subreaper or not the only one all the time.
    """
    below = None if everywhere else _walk(root, without=keeper)
    if below is not None:
        known = {entry.pid for entry in below}
        members = (read_process(pid) for pid in (group.members() if group is not None else ()) if pid not in known)
        return [entry for entry in [*below, *members] if entry is not None and entry.state not in "ZX"]
    entries = list_processes()
    ours = {root} | subtree(entries, keeper) if keeper else {root}
    found = {entry.pid: entry for entry in descendants(entries, root, without=[keeper])}
    found.update(find_marked(entries, cookie=cookie, group=group, known=ours | set(found)))
    return [entry for entry in found.values() if entry.state not in "ZX"]


def _walk(root: int, *, without: int) -> Optional[List[ProcessEntry]]:
    """Return the processes below `root`, read from the kernel's lists of children; None where it keeps none."""
    if not os.path.exists(f"/proc/self/task/{threading.get_native_id()}/children"):
        return None
    found: List[ProcessEntry] = []
    waiting = [root]
    while waiting:
        for pid in _children_of(waiting.pop()):
            entry = read_process(pid) if pid != without else None
            if entry is not None:
                found.append(entry)
                waiting.append(pid)
    return found


def _children_of(pid: int) -> List[int]:
    found: List[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:  # it ended meanwhile: its children are below somebody else, and the next look finds them
        pass
    return found


def find_marked(
    entries: List[ProcessEntry], *, cookie: str, group: Optional[ControlGroup], known: Set[int]
) -> Dict[int, ProcessEntry]:
    """Return the processes in the run's cgroup or with its cookie, except those in `known`."""
    members = set(group.members()) if group is not None else set()
    candidates = [entry for entry in entries if entry.pid not in known]
    return {entry.pid: entry for entry in candidates if entry.pid in members or has_cookie(entry.pid, cookie)}


def subtree(entries: List[ProcessEntry], root: int) -> Set[int]:
    """Return the pids of `root` and all its descendants."""
    return {root, *(entry.pid for entry in descendants(entries, root))}


def direct_children(*, without: int) -> List[int]:
    """Return the children of the calling thread, zombies included, oldest first.

    The kernel's list is exact here, since children leave it only when the calling thread collects them. And below a
    subreaper without other children is no other process: each has an ancestor among them.
    """
    try:
        with open(f"/proc/self/task/{threading.get_native_id()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split() if int(pid) != without]
    except OSError:  # a kernel built without it
        return []
