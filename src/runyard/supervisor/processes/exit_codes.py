"""How a process that is not our child ended, as far as the kernel tells somebody who is not its parent."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import NamedTuple, Optional

# struct pidfd_info: 64 bytes, the mask first, the exit code last. PIDFD_GET_INFO is _IOWR(0xFF, 11, struct pidfd_info).
_INFO_BYTES = 64
_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_INFO_EXIT = 1 << 3
_EXIT_CODE_AT = 60
_STATE, _START_TICKS, _EXIT_CODE = 0, 19, 49  # fields of /proc/<pid>/stat, counted behind the name


class Exit(NamedTuple):
    code: Optional[int]
    signal: Optional[int]


def find_exit(pid: int, start_ticks: int, pidfd: Optional[int]) -> Optional[Exit]:
    """Return how the process ended, None when nobody can tell any more.

    A zombie shows its code in /proc. One that its parent has collected shows it to who held a pidfd (Linux 6.15).
    """
    status = _of_zombie(pid, start_ticks)
    if status is None and pidfd is not None:
        status = _of_collected(pidfd)
    if status is None:
        return None
    if os.WIFSIGNALED(status):
        return Exit(None, os.WTERMSIG(status))
    return Exit(os.WEXITSTATUS(status), None)


def _of_zombie(pid: int, start_ticks: int) -> Optional[int]:
    try:
        os.readlink(f"/proc/{pid}/exe")
    except FileNotFoundError:  # what a zombie's is: we may look
        pass
    except OSError:  # we may not, and the code would read as 0
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[_STATE] != b"Z" or int(fields[_START_TICKS]) != start_ticks:
        return None
    return int(fields[_EXIT_CODE])


def _of_collected(pidfd: int) -> Optional[int]:
    info = bytearray(_INFO_BYTES)
    struct.pack_into("=Q", info, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, _GET_INFO, info)
    except OSError:  # an older kernel
        return None
    if not struct.unpack_from("=Q", info, 0)[0] & _INFO_EXIT:
        return None
    return int(struct.unpack_from("=i", info, _EXIT_CODE_AT)[0])
