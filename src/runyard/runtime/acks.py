"""How a writer learns that the server has its records: the supervisor writes the stored offset beside each segment."""

from __future__ import annotations

import os
import time
from typing import Dict, Sequence

from runyard.core.formats import journal
from runyard.runtime.segment import Segment

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
_WAKE_AGAIN_S = 1.0


def wake(run_folder: str) -> None:
    """Put a byte into the supervisor's FIFO; nobody has to listen."""
    try:
        fd = os.open(f"{run_folder}/wake", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, b"\n")
    except OSError:  # full: it is awake already
        pass
    finally:
        os.close(fd)


def wait_for_acks(run_folder: str, segments: Sequence[Segment], *, deadline: float, ended: bool) -> bool:
    """Wait until all whole records that the segments hold now are stored; `deadline` is on time.monotonic().

    The run folder of a run that has `ended` vanishes when the server has everything.
    """
    wanted = {segment.path: _end_of(segment.path, last=segment is segments[-1]) for segment in segments}
    pause = _FIRST_PAUSE_S
    waked = float("-inf")
    while True:
        wanted = _still_wanted(wanted)
        if not wanted or (ended and not os.path.isdir(run_folder)):
            return True
        now = time.monotonic()
        if now >= deadline or not os.path.isdir(run_folder):
            return False
        if now - waked >= _WAKE_AGAIN_S:
            wake(run_folder)
            waked = now
        time.sleep(min(pause, deadline - now))
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def read_ack(segment_path: str) -> int:
    """Return how many bytes of the segment the server has."""
    try:
        with open(f"{segment_path[: -len('.journal')]}.acked", "rb") as file:
            data = file.read(8)
    except OSError:
        return 0
    return int.from_bytes(data, "little") if len(data) == 8 else 0


def _still_wanted(wanted: Dict[str, int]) -> Dict[str, int]:
    return {path: end for path, end in wanted.items() if end > 0 and read_ack(path) < end}


def _end_of(path: str, *, last: bool) -> int:
    """Return the offset after the last whole record; only a segment that was left can have a torn one."""
    try:
        if last:
            return os.stat(path).st_size
        with open(path, "rb") as file:
            return journal.end_of(file.read())
    except OSError:
        return 1  # gone with its records: nobody will ever store them
