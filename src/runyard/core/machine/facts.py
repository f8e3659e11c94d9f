"""What the kernel says about a process: the fields of `/proc/<pid>/stat`, and what tells it from a later one."""

from __future__ import annotations

from typing import List, Union

STATE, PARENT, GROUP, SESSION, START_TICKS = 0, 1, 2, 3, 19


def stat_fields(pid: Union[int, str] = "self") -> List[bytes]:
    """Return the fields after the command's name, which stands in parentheses and may hold spaces and more of them.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def start_ticks() -> int:
    """Return when this process started, in the kernel's ticks: a pid comes again, the two together do not."""
    return int(stat_fields()[START_TICKS])


def boot_id() -> str:
    """Return what tells this start of the machine from any other; "" where the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read().decode().strip()
    except OSError:
        return ""
