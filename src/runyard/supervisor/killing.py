"""Ending a run's processes until nothing is left: ask, wait, kill, look again."""

from __future__ import annotations

import signal
from typing import Callable, Dict, List, Optional, Set

from runyard.supervisor.cgroups import Group
from runyard.supervisor.proc import ProcessEntry, boot_ns, descendants, has_cookie, list_processes, send_signal

Find = Callable[[], List[ProcessEntry]]


class Sweep:
    """One order to end what is left. Call `step` until it returns True; it never blocks.

    With a grace, leftovers get TERM first; then KILL, again and again, because a killed process may just have forked.
    """

    def __init__(self, find: Find, *, group: Optional[Group], grace_s: float) -> None:
        self._find = find
        self._group = group
        self._kill_at = boot_ns() + int(grace_s * 1e9)
        self._asked = False

    def step(self) -> bool:
        left = self._find()
        if not left:
            return True
        if boot_ns() >= self._kill_at:
            self._kill(left)
        elif not self._asked:
            self._asked = True
            for entry in left:
                stop_gently(entry)
        return False

    def _kill(self, left: List[ProcessEntry]) -> None:
        if self._group is not None:
            self._group.kill()
        for entry in left:
            send_signal(entry.pid, entry.start_ticks, signal.SIGKILL)


def stop_gently(entry: ProcessEntry) -> None:
    """TERM, and CONT so that a stopped process can act on it."""
    send_signal(entry.pid, entry.start_ticks, signal.SIGTERM)
    send_signal(entry.pid, entry.start_ticks, signal.SIGCONT)


def find_below(root: int, *, keepers: List[int], cookie: str, group: Optional[Group]) -> List[ProcessEntry]:
    """Return the living processes of a run: below the reaper `root`, less its own `keepers`, or marked as the run's."""
    entries = list_processes()
    ours = {root}.union(*(subtree(entries, keeper) for keeper in keepers))
    found = {entry.pid: entry for entry in descendants(entries, root, without=keepers)}
    found.update(find_marked(entries, cookie=cookie, group=group, known=ours | set(found)))
    return [entry for entry in found.values() if entry.state not in "ZX"]


def find_marked(
    entries: List[ProcessEntry], *, cookie: str, group: Optional[Group], known: Set[int]
) -> Dict[int, ProcessEntry]:
    """Return processes that are in the run's group or carry its cookie, `known` ones left out."""
    members = set(group.members()) if group is not None else set()
    candidates = [entry for entry in entries if entry.pid not in known]
    return {entry.pid: entry for entry in candidates if entry.pid in members or has_cookie(entry.pid, cookie)}


def subtree(entries: List[ProcessEntry], root: int) -> Set[int]:
    return {root, *(entry.pid for entry in descendants(entries, root))}
