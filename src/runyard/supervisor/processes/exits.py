"""What an exit record says, and how far a failure can be from being the cause of a run's.

What rank shims wrote about the ranks that mpirun started: `starts/<rank>.json`, `exits/<rank>.json`.

What the end of a container engine says about the process in the container.

How a process that is not our child ended, as far as the kernel tells somebody who is not its parent.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.supervisor.run_folder import RunFolder

CAUSE, ABORTED, CONSEQUENCE, STOPPED, HELPER = range(5)


def has_failed(record: Mapping[str, Any]) -> bool:
    return bool(record.get("code") or record.get("signal") or record.get("unknown"))


def has_raised(folder: RunFolder, ranks: Sequence[Mapping[str, Any]], exits: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a rank's program has failed, though its process is still there: MPI_Finalize may wait for the others."""
    ended = {record["rank"] for record in exits}
    return any(folder.has(f"exceptions/{entry['pid']}.json") for entry in ranks if entry["rank"] not in ended)


def read_start(folder: RunFolder, rank: int) -> Optional[Dict[str, Any]]:
    """Return `{rank, pid, start_ticks, started_boot_ns, boot_id}`, None when the rank has not started."""
    return _read(folder, f"starts/{rank}.json", rank)


def read_end(folder: RunFolder, rank: int) -> Optional[Dict[str, Any]]:
    """Return the exit record, None when the rank has not ended or nobody could write it."""
    return _read(folder, f"exits/{rank}.json", rank)


def _read(folder: RunFolder, name: str, rank: int) -> Optional[Dict[str, Any]]:
    found = folder.read_object(name)
    return found if found.get("rank") == rank else None


_SIGNAL_BASE = 128  # engines, like shells, tell of a signal by this much and its number


def container_exit(process: Mapping[str, Any], code: Optional[int]) -> Tuple[Optional[int], Optional[int]]:
    """Return (code, signal) of a process that ended with `code`: an engine ends as its container did."""
    if process.get("contained") and code is not None and code - _SIGNAL_BASE in set(signal.Signals):
        return None, code - _SIGNAL_BASE
    return code, None


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
