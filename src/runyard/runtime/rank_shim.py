"""Runs one rank under mpirun or srun: `python -m runyard.runtime.rank_shim --folder RUN_FOLDER -- program arguments…`

The rank's number comes from the launcher's variables. Its output goes into its own log file, its end into
`exits/<rank>.json` as the reaper writes it, and this process ends the same way. Signals are passed on.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any, Dict, List, Mapping, Optional, Tuple

_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RUNYARD_RANK")
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main(argv: Optional[List[str]] = None) -> int:
    folder, log, command = _parse(sys.argv[1:] if argv is None else argv)
    rank = find_rank(os.environ)
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # until there is somebody to pass them on to
    pid = _start(command, f"{folder}/{log or f'user_logs/std_log_process_{rank}.txt'}", rank)
    for number in _PASSED_ON:
        signal.signal(number, lambda received, _frame: _pass_on(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    _pid, status, usage = os.wait4(pid, 0)
    write_exit(folder, rank, status, usage)
    return _end_alike(status)


def find_rank(variables: Mapping[str, str]) -> int:
    """Return the rank that the launcher gave this process."""
    for name in _RANK_VARIABLES:
        if variables.get(name, "").isdigit():
            return int(variables[name])
    return 0


def write_exit(folder: str, rank: int, status: int, usage: resource.struct_rusage) -> None:
    """Write `exits/<rank>.json` beside, make it durable and rename it into place."""
    if not os.path.isdir(folder):  # removed while we ran: nobody reads it
        return
    os.makedirs(f"{folder}/exits", mode=0o700, exist_ok=True)
    path = f"{folder}/exits/{rank}.json"
    fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(_exit_facts(rank, status, usage)).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(f"{path}.tmp", path)


def _parse(argv: List[str]) -> Tuple[str, Optional[str], List[str]]:
    options: Dict[str, str] = {}
    rest = list(argv)
    while len(rest) > 1 and rest[0] in ("--folder", "--log"):
        options[rest[0]] = rest[1]
        rest = rest[2:]
    if rest[:1] != ["--"] or len(rest) < 2 or "--folder" not in options:
        sys.exit("usage: python -m runyard.runtime.rank_shim --folder RUN_FOLDER [--log NAME] -- PROGRAM [ARGUMENT…]")
    return os.path.abspath(options["--folder"]), options.get("--log"), rest[1:]


def _start(command: List[str], log: str, rank: int) -> int:
    os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    pid = os.fork()
    if pid == 0:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.execvpe(command[0], command, {**os.environ, "RUNYARD_RANK": str(rank)})
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    os.close(output)
    return pid


def _pass_on(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _exit_facts(rank: int, status: int, usage: resource.struct_rusage) -> Dict[str, Any]:
    return {
        "rank": rank,
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "oom": False,
        "rusage": {"user_s": usage.ru_utime, "system_s": usage.ru_stime, "max_rss_kb": usage.ru_maxrss},
        "ended_boot_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "boot_id": _boot_id(),
    }


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _end_alike(status: int) -> int:
    """Return the exit code, or die by the same signal, so that the launcher above sees what happened."""
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


if __name__ == "__main__":
    sys.exit(main())
