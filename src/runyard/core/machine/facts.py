"""Facts of this machine and its processes: `/proc/<pid>/stat`, the boot, the address, how a supervisor starts."""

from __future__ import annotations

import os
import sys
from typing import Dict, List, Mapping, Union

STATE, PARENT, GROUP, SESSION, START_TICKS = 0, 1, 2, 3, 19
_FIRST_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: the namespace of the machine itself
# Nothing that changes how a program is loaded or a shell starts; a run's own variables travel in its job.
KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"}
)


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


def container_id() -> str:
    """Return what tells this start of a container from any other; "" outside of one, and where that is not known.

    A container that starts again keeps the machine's boot id, but nothing that ran in it lives on.
    """
    try:
        if os.readlink("/proc/self/ns/pid") == _FIRST_PIDS:
            return ""
        return str(int(stat_fields(1)[START_TICKS]))
    except OSError:
        return ""


def find_own_address() -> str:
    """Return the address that this machine's packets carry on their way out; "" when it has no network.

    Nothing is sent: a datagram socket only looks its route up.
    """
    import socket  # ranks load this module, and most of them never ask

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # a documentation address, which no machine has
            found = str(sock.getsockname()[0])
        except OSError:
            return ""
    return "" if found.startswith("127.") or found == "0.0.0.0" else found


def node_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in environ.items() if name in KEPT or name.startswith("LC_")}


def supervisor_command() -> List[str]:
    """Return the start of every supervisor's argv. `-I`: no PYTHON… variable, user site or current folder gets in."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, "-I", os.path.join(package, "supervisor", "__main__.py")]
