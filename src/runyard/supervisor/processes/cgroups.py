"""A cgroup v2 group per run where the kernel lets us make one; without it the reaper's process tree does the work."""

from __future__ import annotations

import os
from typing import Iterator, List, Optional, Tuple

NO_LIMIT = 1 << 60  # version 1 writes a huge number for none


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


def memory_limit() -> Optional[int]:
    """Return how much memory the group of this process may have, None when that is not limited."""
    found = [_limit(folder, name) for folder, name in _memory_folders()]
    limits = [limit for limit in found if limit is not None and limit < NO_LIMIT]
    return min(limits) if limits else None


def _memory_folders() -> Iterator[Tuple[str, str]]:
    """Yield the folders of our memory group and of those above it, with the name of the file that holds the limit."""
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
