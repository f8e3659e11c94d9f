"""A hostname of its own for a process and all below it, without touching the machine's.

Open MPI 5 tells nodes apart by the names that their daemons report. Virtual nodes, which all report the machine's,
would get each other's lists of local ranks: `MPI_Comm_split_type` and the collectives built on it hang.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Callable

_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000


def take_hostname(name: str) -> bool:
    """Give this process, which must have one thread, the hostname; False where the system does not allow it."""
    import ctypes  # most ranks keep the machine's

    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_CLONE_NEWUTS) != 0:
            _become_own_namespace(libc, ctypes.get_errno)
        socket.sethostname(name)
    except OSError:
        return False
    return True


def _become_own_namespace(libc: Any, get_errno: Callable[[], int]) -> None:
    """Without privileges one may change the hostname only in a user namespace; users and groups stay what they are."""
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWUTS) != 0:
        raise OSError(get_errno(), "unshare failed")
    for path, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{path}", "w") as file:
            file.write(text)
