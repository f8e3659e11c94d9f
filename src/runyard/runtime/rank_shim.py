"""Run one rank below mpirun: `python -I -S rank_shim.py --folder RUN_FOLDER`

The rank's number comes from mpirun's variables; its command, variables, folder and log are in the run's `launch.json`.
The rank leads a session of its own, so that it gets signals from us alone, once. The shim writes `starts/<rank>.json`
when the rank runs and `exits/<rank>.json` when it has ended, both as the reaper writes them, and wakes the supervisor.
Then the shim ends the same way. After a failure it waits a moment first: mpirun stops all ranks as soon as it knows,
and their own reports of the failure are worth more. The script is run by path and imports nothing of Runyard.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, List, Mapping, Set, Tuple

if TYPE_CHECKING:
    from runyard.core.formats.run_files import LaunchPlan, PlannedProcess, RankExit, RankStart

LINGER_S = 30.0  # the supervisor ends the run long before
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127


def main(arguments: List[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "--folder":
        sys.exit("usage: rank_shim.py --folder RUN_FOLDER")
    folder = os.path.abspath(arguments[1])
    rank = find_rank(os.environ)
    process, umask = find_process(folder, rank)
    # Blocked for good and asked for with sigwait: a handler in Python would miss a signal that arrives just before the
    # interpreter enters a waiting system call.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would never come
    signal.pthread_sigmask(signal.SIG_BLOCK, [*_PASSED_ON, signal.SIGCHLD])
    pid = _start(process, folder, rank, umask)
    _write(folder, f"starts/{rank}.json", _start_facts(rank, pid))
    _wake(folder)
    end, passed = _pass_signals_on(pid)
    facts = _exit_facts(folder, rank, end)
    # Before the zombie goes: if we are killed here, the reaper above inherits it and can still ask it.
    _write(folder, f"exits/{rank}.json", facts, durable=True)
    _pid, status, usage = os.wait4(pid, 0)
    facts["rusage"] = {"user_s": usage.ru_utime, "system_s": usage.ru_stime, "max_rss_kb": usage.ru_maxrss}
    _write(folder, f"exits/{rank}.json", facts)
    _wake(folder)
    if status and signal.SIGTERM not in passed:
        _linger()
    return _end_alike(status)


def find_rank(variables: Mapping[str, str]) -> int:
    """Return the rank that the launcher gave this process."""
    for name in _RANK_VARIABLES:
        if variables.get(name, "").isdigit():
            return int(variables[name])
    sys.exit(f"rank_shim.py: none of {', '.join(_RANK_VARIABLES)} is set: this is to be started by mpirun")


def find_process(folder: str, rank: int) -> Tuple[PlannedProcess, int]:
    """Return the rank's process of `launch.json`, and the umask of all."""
    with open(f"{folder}/launch.json", encoding="utf-8") as file:
        plan: LaunchPlan = json.load(file)
    found = [process for process in plan["processes"] if process["rank"] == rank]
    if not found:
        sys.exit(f"rank_shim.py: {folder}/launch.json knows no rank {rank}")
    return found[0], plan.get("umask", 0o022)


def _start(process: PlannedProcess, folder: str, rank: int, umask: int) -> int:
    pid = os.fork()
    if pid != 0:
        return pid
    code = _NOT_FOUND
    try:
        _become(process, folder, umask)
    except OSError as error:
        code = _CANNOT_EXECUTE if isinstance(error, PermissionError) else _NOT_FOUND
        _leave_word(process, folder, rank, error)
    finally:
        os._exit(code)


def _become(process: PlannedProcess, folder: str, umask: int) -> None:
    os.setsid()
    log = os.path.join(folder, process["log"])
    os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.closerange(3, max(output, nothing) + 1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(umask)
    os.chdir(process["cwd"])
    # What mpirun and its daemon said about themselves stays; all else is as it was planned.
    variables = {**os.environ, **process["variables"], "RUNYARD_RANK_PID": str(os.getpid())}
    os.execvpe(process["argv"][0], process["argv"], variables)


def _leave_word(process: PlannedProcess, folder: str, rank: int, error: OSError) -> None:
    text = f"runyard: cannot start {process['argv'][0]!r} in {process['cwd']!r}: {error}\n"
    try:
        os.write(2, text.encode("utf-8", "replace"))
        with open(f"{folder}/exits/{rank}.error", "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        pass


def _pass_signals_on(pid: int) -> Tuple[os.waitid_result, Set[int]]:
    """Pass signals on until the rank ends, each once; return its end and what was passed on.

    mpirun may send TERM several times, and a program that saves its work must not begin again.
    """
    passed: Set[int] = set()
    while True:
        number = signal.sigwait([*_PASSED_ON, signal.SIGCHLD])
        if number != signal.SIGCHLD:
            if number not in passed:
                passed.add(number)
                _send(pid, number)
            continue
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if end is not None:  # None: it was stopped, or goes on
            return end, passed


def _send(pid: int, number: int) -> None:
    for send in (os.killpg, os.kill):  # the second for a rank that does not lead its session yet: it waits for that
        try:
            return send(pid, number)
        except ProcessLookupError:
            continue
        except OSError:
            return


def _linger() -> None:
    """Wait for a TERM; one that came since the rank ended counts."""
    signal.sigtimedwait([signal.SIGTERM], LINGER_S)


def _start_facts(rank: int, pid: int) -> RankStart:
    mine = os.getpid()
    return {
        "rank": rank,
        "pid": pid,
        "start_ticks": _start_ticks(pid),
        "shim_pid": mine,
        "shim_start_ticks": _start_ticks(mine),
        "started_boot_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "boot_id": _boot_id(),
    }


def _exit_facts(folder: str, rank: int, end: os.waitid_result) -> RankExit:
    is_exit = end.si_code == os.CLD_EXITED
    facts: RankExit = {
        "rank": rank,
        "code": end.si_status if is_exit else None,
        "signal": None if is_exit else end.si_status,
        "oom": False,
        "ended_boot_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "boot_id": _boot_id(),
    }
    if facts["code"] in (_CANNOT_EXECUTE, _NOT_FOUND):
        error = _read(f"{folder}/exits/{rank}.error")
        if error:
            facts["error"] = error
    return facts


def _write(folder: str, name: str, facts: Mapping[str, object], *, durable: bool = False) -> None:
    """Write beside and rename into place. A run folder that was removed is not made again: no process reads it."""
    path = f"{folder}/{name}"
    try:
        if os.path.isdir(folder):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, json.dumps(facts).encode())
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(f"{path}.tmp", path)
    except OSError as error:
        sys.stderr.write(f"rank_shim.py: {path} could not be written: {error}\n")


def _wake(folder: str) -> None:
    try:
        fd = os.open(f"{folder}/wake", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, b"\n")
    except OSError:
        pass
    finally:
        os.close(fd)


def _start_ticks(pid: int) -> int:
    text = _read(f"/proc/{pid}/stat")
    return int(text[text.rfind(")") + 2 :].split()[19]) if text else 0


def _boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _end_alike(status: int) -> int:
    """Return the exit code, or die by the same signal, so that the launcher above sees what happened."""
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return 128 + number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
