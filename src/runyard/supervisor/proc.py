"""Reads processes from /proc, and sends signals that cannot reach a process with a reused pid."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional

from runyard.core.machine.facts import GROUP, PARENT, SESSION, START_TICKS, STATE, stat_fields

_PR_SET_CHILD_SUBREAPER = 36


class ProcessEntry(NamedTuple):
    """One process as /proc/<pid>/stat shows it. pid and start ticks together identify it within a boot."""

    pid: int
    ppid: int
    group: int
    session: int
    start_ticks: int
    state: str


def boot_ns() -> int:
    """Return CLOCK_BOOTTIME in ns: it counts through suspends and ignores changes of the wall clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def read_process(pid: int) -> Optional[ProcessEntry]:
    """Return the entry of a process, a zombie included; None when it is gone."""
    try:
        fields = stat_fields(pid)
    except OSError:
        return None
    parent, group, session, ticks = (int(fields[at]) for at in (PARENT, GROUP, SESSION, START_TICKS))
    return ProcessEntry(pid, parent, group, session, ticks, fields[STATE].decode())


def is_alive(pid: int, start_ticks: int) -> bool:
    """Return whether exactly that process still runs; a zombie does not."""
    entry = read_process(pid)
    return entry is not None and entry.start_ticks == start_ticks and entry.state not in "ZX"


def list_processes() -> List[ProcessEntry]:
    """Return all processes of the machine, zombies included."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [entry for entry in found if entry is not None]


def descendants(entries: Iterable[ProcessEntry], root: int, *, without: Iterable[int] = ()) -> List[ProcessEntry]:
    """Return all processes below `root`, without the subtrees that start at `without`."""
    children: Dict[int, List[ProcessEntry]] = {}
    for entry in entries:
        children.setdefault(entry.ppid, []).append(entry)
    left_out = set(without)
    found: List[ProcessEntry] = []
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.pid not in left_out:
                found.append(child)
                waiting.append(child.pid)
    return found


def has_cookie(pid: int, cookie: str) -> bool:
    """Return whether the process was started with the run's RUNYARD_COOKIE."""
    if not cookie:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"RUNYARD_COOKIE=" + cookie.encode() in file.read().split(b"\0")
    except OSError:
        return False


def open_pidfd(entry_pid: int, start_ticks: int) -> Optional[int]:
    """Return a pidfd of exactly that process; None when it is gone or the kernel has no pidfds."""
    opener: Optional[Callable[[int], int]] = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        fd = opener(entry_pid)
    except OSError:
        return None
    entry = read_process(entry_pid)
    if entry is None or entry.start_ticks != start_ticks:
        os.close(fd)
        return None
    return fd


def send_signal(pid: int, start_ticks: int, number: int) -> bool:
    """Signal exactly that process, never one with a reused pid; False when it is gone or not ours."""
    sender: Any = getattr(signal, "pidfd_send_signal", None)
    fd = open_pidfd(pid, start_ticks) if sender is not None else None
    try:
        if fd is not None:
            sender(fd, number)
            return True
        if not is_alive(pid, start_ticks) or _kernel_has_pidfd():
            return False
        os.kill(pid, number)
        return True
    except OSError:
        return False
    finally:
        if fd is not None:
            os.close(fd)


def set_subreaper(is_one: bool) -> None:
    """Make this process a subreaper, or end that: orphans below a subreaper become its children instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(is_one))


def oom_kills() -> int:
    """Return how many processes the kernel has killed since boot because memory ran out; 0 when it does not count."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def _kernel_has_pidfd() -> bool:
    opener: Optional[Callable[[int], int]] = getattr(os, "pidfd_open", None)
    if opener is None:
        return False
    try:
        os.close(opener(os.getpid()))
    except OSError:
        return False
    return True


def _prctl(option: int, value: int) -> None:
    import ctypes  # only reapers need it

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
