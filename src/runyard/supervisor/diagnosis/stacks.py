"""Gets the Python stacks of a run's processes, by a signal that our `sitecustomize` handles in them.

The processes of each rank are found by the run's cookie and the rank in their variables, whatever started them.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from runyard.supervisor.proc import ProcessEntry, list_processes, send_signal

STACKS_SIGNAL, STACKS_NAME = 50, "runyard-stacks"  # as runtime/sitecustomize_hook.py has them
ANSWER_S = 1.0  # a process that is swapped out answers late
QUIET_S = 0.05
MOST_BYTES = 1 << 20

_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
_THREAD = re.compile(r"^(Current thread|Thread) 0x")
_TICKS = os.sysconf("SC_CLK_TCK")


class Frame(NamedTuple):
    """One frame of a Python stack."""

    file: str
    line: int
    function: str


def take_stacks(processes: Sequence[ProcessEntry]) -> Dict[int, str]:
    """Return faulthandler's text by pid, for processes that handle the signal; others get none. Waits up to 1 s."""
    asked: Dict[int, Tuple[int, int]] = {}
    for entry in processes:
        fd = _open_answers(entry.pid) if entry.state not in "TtZX" and _catches(entry.pid) else None
        if fd is None:
            continue
        asked[entry.pid] = (fd, os.fstat(fd).st_size)
        send_signal(entry.pid, entry.start_ticks, STACKS_SIGNAL)
    try:
        _wait_for(asked)
        found = {pid: os.pread(fd, MOST_BYTES, start) for pid, (fd, start) in asked.items()}
    finally:
        for fd, _ in asked.values():
            os.close(fd)
    return {pid: data.decode("utf-8", "replace") for pid, data in found.items() if data}


def main_stack(text: str) -> List[Frame]:
    """Return the frames of the main thread, innermost first; faulthandler writes the main thread last."""
    frames: List[Frame] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            frames = []
        match = _FRAME.match(line)
        if match:
            frames.append(Frame(match.group(1), int(match.group(2)), match.group(3)))
    return frames


def read_line(frame: Frame) -> str:
    """Return the source line of a frame, "" when the file cannot be read."""
    try:
        with open(frame.file, encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, 1):
                if number == frame.line:
                    return text.strip()[:200]
    except OSError:
        pass
    return ""


def _open_answers(pid: int) -> Optional[int]:
    """Open the file into which the process writes its stacks; None when it has none."""
    try:
        numbers = sorted(map(int, os.listdir(f"/proc/{pid}/fd")), reverse=True)
    except OSError:
        return None
    for number in numbers:
        path = f"/proc/{pid}/fd/{number}"
        try:
            if os.readlink(path).startswith(f"/memfd:{STACKS_NAME}"):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
    return None


def _catches(pid: int) -> bool:
    """Return whether the process handles the signal, which would end it otherwise."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = next((line.split()[1] for line in file if line.startswith(b"SigCgt:")), b"0")
    except OSError:
        return False
    return bool(int(caught, 16) >> (STACKS_SIGNAL - 1) & 1)


def _wait_for(asked: Dict[int, Tuple[int, int]]) -> None:
    """Wait until all processes have written and none writes any more."""
    deadline = time.monotonic() + ANSWER_S
    before: List[int] = []
    while time.monotonic() < deadline:
        sizes = [os.fstat(fd).st_size for fd, _ in asked.values()]
        if sizes == before and all(size > start for size, (_, start) in zip(sizes, asked.values())):
            return
        before = sizes
        time.sleep(QUIET_S)


def list_rank_processes(cookie: str) -> Dict[int, List[ProcessEntry]]:
    """Return the living processes by rank, the oldest process of a rank first."""
    found: Dict[int, List[ProcessEntry]] = {}
    for entry in list_processes():
        rank = _rank_of(entry.pid, cookie) if entry.state not in "ZX" else None
        if rank is not None:
            found.setdefault(rank, []).append(entry)
    return {rank: _by_birth(found[rank]) for rank in sorted(found)}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the process has used, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _rank_of(pid: int, cookie: str) -> Optional[int]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return None
    if not cookie or b"RUNYARD_COOKIE=" + cookie.encode() not in variables:
        return None
    ranks = [one[len(b"RUNYARD_RANK=") :] for one in variables if one.startswith(b"RUNYARD_RANK=")]
    return int(ranks[0]) if ranks and ranks[0].isdigit() else None


def _by_birth(entries: List[ProcessEntry]) -> List[ProcessEntry]:
    return sorted(entries, key=lambda entry: (entry.start_ticks, entry.pid))
