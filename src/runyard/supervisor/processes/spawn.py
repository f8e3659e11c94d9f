"""Starts one rank in the reaper: fork, drop everything inherited from the reaper, exec.

A rank can get a hostname of its own without a change of the machine's. Open MPI 5 tells nodes apart by the hostnames
that its daemons report. Virtual nodes all report the machine's name and would mix up their lists of local ranks: then
`MPI_Comm_split_type`, and the collectives that use it, hang.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Any, Callable, Dict

if TYPE_CHECKING:
    from runyard.core.formats.run_files import PlannedProcess

_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
CANNOT_EXECUTE = 126
NOT_FOUND = 127


def take_hostname(name: str) -> bool:
    """Give this process and its descendants a hostname; False where the system does not allow it.

    Called in the forked child before the exec: the process must have a single thread.
    """
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
    """Enter a user namespace, in which a user without privileges may set the hostname; user and group ids stay."""
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWUTS) != 0:
        raise OSError(get_errno(), "unshare failed")
    for path, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{path}", "w") as file:
            file.write(text)


def start_rank(process: PlannedProcess, *, folder: str, umask: int) -> int:
    """Fork and exec one process of `launch.json`; return its pid.

    Called by the reaper. A process that cannot be executed ends with 127 (or 126), and writes the reason into its log
    and `exits/<rank>.error`.
    """
    pid = os.fork()
    if pid != 0:
        return pid
    code = NOT_FOUND
    try:
        _become(process, folder, umask)
    except PermissionError as error:
        code = CANNOT_EXECUTE
        _leave_word(process, folder, error)
    except BaseException as error:
        _leave_word(process, folder, error)
    finally:
        os._exit(code)


def _become(process: PlannedProcess, folder: str, umask: int) -> None:
    os.setsid()
    _redirect(os.path.join(folder, process["log"]))
    _default_signals()
    _close_above(2)
    if process.get("hostname") and not take_hostname(process["hostname"]):
        os.write(2, b"runyard: no hostname of its own for this node: collectives of Open MPI 5 may hang\n")
    os.umask(umask)
    os.chdir(process["cwd"])
    variables: Dict[str, str] = dict(process["variables"])
    variables["RUNYARD_RANK_PID"] = str(os.getpid())
    argv = list(process["argv"])
    os.execvpe(argv[0], argv, variables)


def _redirect(log: str) -> None:
    os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)


def _default_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _close_above(last: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > last:
            try:
                os.close(int(name))
            except OSError:
                continue


def _leave_word(process: PlannedProcess, folder: str, error: BaseException) -> None:
    text = f"runyard: cannot start {process['argv'][0]!r} in {process['cwd']!r}: {error}\n"
    try:
        os.write(2, text.encode("utf-8", "replace"))
        with open(os.path.join(folder, "exits", f"{process['rank']}.error"), "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, KeyError):
        pass
