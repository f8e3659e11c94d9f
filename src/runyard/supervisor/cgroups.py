"""A cgroup v2 group per run where the kernel lets us make one; without it the reaper's process tree does the work."""

from __future__ import annotations

import os
from typing import List, Optional


class Group:
    """One cgroup of a run. Every method is harmless when the group is gone."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def procs(self) -> str:
        return os.path.join(self.path, "cgroup.procs")

    def members(self) -> List[int]:
        return [int(line) for line in _read(self.procs).split() if line.isdigit()]

    def add(self, pid: int) -> bool:
        return _write(self.procs, str(pid))

    def is_populated(self) -> bool:
        """Whether a process lives in it or below: the kernel's own count."""
        return "populated 1" in _read(os.path.join(self.path, "cgroup.events"))

    def kill(self) -> bool:
        """Kill all members at once; False when this kernel (before 5.14) cannot."""
        return _write(os.path.join(self.path, "cgroup.kill"), "1")

    def oom_kills(self) -> int:
        for line in _read(os.path.join(self.path, "memory.events")).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def remove(self) -> None:
        try:
            os.rmdir(self.path)
        except OSError:
            pass


def make_group(name: str) -> Optional[Group]:
    """Make (or find) the group `name` below our own one; None where that is not allowed."""
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
    return Group(path) if os.access(os.path.join(path, "cgroup.procs"), os.W_OK) else None


def own_group_folder() -> Optional[str]:
    """Return the folder of this process's cgroup v2 group, None without cgroup v2."""
    mount = _mount_point()
    for line in _read("/proc/self/cgroup").splitlines():
        if mount is not None and line.startswith("0::/"):
            return os.path.join(mount, line[4:])
    return None


def _mount_point() -> Optional[str]:
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
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
