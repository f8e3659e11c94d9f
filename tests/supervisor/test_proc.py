"""A80: a signal reaches the process that was meant or nobody."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from runyard.supervisor.proc import ProcessEntry, descendants, is_alive, open_pidfd, read_process, send_signal


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_reused_pid_is_never_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    entry = read_process(sleeper.pid)
    assert entry is not None

    assert not send_signal(sleeper.pid, entry.start_ticks + 1, signal.SIGKILL)
    assert open_pidfd(sleeper.pid, entry.start_ticks - 1) is None
    assert not is_alive(sleeper.pid, entry.start_ticks + 1)
    assert sleeper.poll() is None
    assert send_signal(sleeper.pid, entry.start_ticks, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_the_control_bites_a_bare_pid_would_have_been_killed(sleeper: subprocess.Popen[bytes]) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)

    assert sleeper.wait() == -signal.SIGKILL


def test_the_ended_are_not_signalled() -> None:
    process = subprocess.Popen(["true"])
    entry = read_process(process.pid)
    process.wait()

    assert entry is None or not send_signal(process.pid, entry.start_ticks, signal.SIGTERM)


def test_descendants_leave_out_whole_subtrees() -> None:
    tree = [ProcessEntry(pid, ppid, 0, 0, 0, "S") for pid, ppid in [(2, 1), (3, 2), (4, 3), (5, 1), (6, 5), (7, 9)]]

    assert sorted(entry.pid for entry in descendants(tree, 1)) == [2, 3, 4, 5, 6]
    assert sorted(entry.pid for entry in descendants(tree, 1, without=[2])) == [5, 6]
