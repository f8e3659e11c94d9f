"""Exit records of ranks: how to read them, and how to find an exit code when this process is not the parent.

Exit records come from the reaper, from the rank shims of ranks that mpirun started (`starts/<rank>.json`,
`exits/<rank>.json`), or from the kernel.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Mapping, NamedTuple, Optional, Sequence, Tuple, cast

from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.run_files import PlannedProcess, RankExit, RankStart

_SIGNAL_BASE = 128  # container runtimes, like shells, report signal N as exit code 128 + N
# struct pidfd_info: 64 bytes, the mask first, the exit code last. PIDFD_GET_INFO is _IOWR(0xFF, 11, struct pidfd_info).
_INFO_BYTES = 64
_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_INFO_EXIT = 1 << 3
_EXIT_CODE_AT = 60
_STATE, _START_TICKS, _EXIT_CODE = 0, 19, 49  # fields of /proc/<pid>/stat, counted behind the name


class FailureWeight(IntEnum):
    """How far a failure is from being the cause of the run's failure; the lowest is shown as the run's error."""

    BEFORE_ALL = -1  # mpirun's own fault that explains those of the ranks
    CAUSE = 0
    ABORTED = 1  # ended by MPI or at exit, which may follow from a peer's failure
    CONSEQUENCE = 2
    STOPPED = 3  # by us, after the first failure
    HELPER = 4  # a process beside the ranks
    AFTER_ALL = 5  # mpirun's fault that follows from those of the ranks


def has_failed(record: RankExit) -> bool:
    """Return whether an exit record shows a failure: a code, a signal, or an unknown end."""
    return bool(record.get("code") or record.get("signal") or record.get("unknown"))


def has_raised(folder: RunFolder, ranks: Sequence[RankStart], exits: Sequence[RankExit]) -> bool:
    """Return whether the program of a living rank has failed. Its process may wait for others, as in MPI_Finalize."""
    ended = {record["rank"] for record in exits}
    return any(folder.has(f"exceptions/{entry['pid']}.json") for entry in ranks if entry["rank"] not in ended)


def read_start(folder: RunFolder, rank: int) -> Optional[RankStart]:
    """Return the start as the rank shim wrote it; None before the start."""
    return cast("Optional[RankStart]", _read(folder, f"starts/{rank}.json", rank))


def read_end(folder: RunFolder, rank: int) -> Optional[RankExit]:
    """Return the exit record that the rank shim wrote; None when the rank has not ended or the shim was killed."""
    return cast("Optional[RankExit]", _read(folder, f"exits/{rank}.json", rank))


def _read(folder: RunFolder, name: str, rank: int) -> Optional[Mapping[str, object]]:
    found = folder.read_object(name)
    return found if found.get("rank") == rank else None


def container_exit(process: PlannedProcess, code: Optional[int]) -> Tuple[Optional[int], Optional[int]]:
    """Return (code, signal) of a process that ended with `code`; a container runtime reports a signal as a code."""
    if process.get("contained") and code is not None and code - _SIGNAL_BASE in set(signal.Signals):
        return None, code - _SIGNAL_BASE
    return code, None


class Exit(NamedTuple):
    """How a process ended: `code` or `signal`, the other is None."""

    code: Optional[int]
    signal: Optional[int]


def find_exit(pid: int, start_ticks: int, pidfd: Optional[int]) -> Optional[Exit]:
    """Return how a process that is not our child ended, None when the kernel does not know any more.

    A zombie shows its code in /proc. After its parent collected it, only a pidfd shows the code (Linux 6.15).
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
    except FileNotFoundError:  # a zombie has no exe link: we may read its stat
        pass
    except OSError:  # no permission: the kernel would show the code as 0
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
