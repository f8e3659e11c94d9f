"""How processes that are not our children ended, and waits that do not fall together."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from runyard.supervisor.proc import open_pidfd, read_process
from runyard.supervisor.processes.exits import Exit, find_exit
from runyard.supervisor.shipping.loops import spread

KERNEL = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
ENDS = {"os._exit(3)": Exit(3, None), "os.kill(os.getpid(), 9)": Exit(None, 9), "pass": Exit(0, None)}


def end(code: str) -> tuple[int, int, int]:
    """Return pid, start ticks and pidfd of a process that has ended and is a zombie."""
    process = subprocess.Popen([sys.executable, "-Ic", f"import os\ninput()\n{code}"], stdin=subprocess.PIPE)
    entry = read_process(process.pid)
    assert entry is not None
    fd = open_pidfd(entry.pid, entry.start_ticks)
    assert fd is not None and process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.returncode = 0  # it is collected here, not by Popen
    return entry.pid, entry.start_ticks, fd


@pytest.mark.parametrize("code", ENDS)
def test_a_zombie_and_a_collected_process_tell_how_they_ended(code: str) -> None:
    pid, ticks, fd = end(code)
    as_zombie = find_exit(pid, ticks, None)
    as_another = find_exit(pid, ticks + 1, None)
    os.waitpid(pid, 0)
    collected = find_exit(pid, ticks, fd)
    os.close(fd)

    assert as_zombie == ENDS[code]
    assert as_another is None
    assert collected == (ENDS[code] if KERNEL >= (6, 15) else None)
    assert find_exit(pid, ticks, None) is None


def test_a_process_that_lives_has_no_end() -> None:
    entry = read_process(os.getpid())
    assert entry is not None
    fd = open_pidfd(entry.pid, entry.start_ticks)
    assert fd is not None

    assert find_exit(entry.pid, entry.start_ticks, fd) is None
    os.close(fd)


def test_heartbeats_spread_over_a_fifth_of_their_time() -> None:
    waits = [spread(5.0, 0.2) for _ in range(200)]

    assert 4.0 <= min(waits) < 4.5
    assert 5.5 < max(waits) <= 6.0
    assert spread(0.25, 0.0) == 0.25
