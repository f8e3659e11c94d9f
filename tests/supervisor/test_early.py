"""A supervisor that is forked before its run is known."""

from __future__ import annotations

import os
import signal
import socket

from runyard.supervisor.early import start_early


def answer(path: str, link: socket.socket) -> int:
    link.sendall(f"took {path}".encode() + b" " + link.recv(100))
    return 7


def test_it_gets_the_path_and_what_follows_is_the_supervisors() -> None:
    early = start_early(answer)
    taken = early.take("/runs/exp_1/1")
    assert taken is not None
    pid, link = taken
    link.sendall(b"state")

    assert link.recv(100) == b"took /runs/exp_1/1 state"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    link.close()


def test_one_that_died_is_not_taken() -> None:
    early = start_early(answer)
    os.kill(early._pid, signal.SIGKILL)
    os.waitid(os.P_PID, early._pid, os.WEXITED | os.WNOWAIT)

    assert early.take("/runs/exp_1/1") is None


def test_it_leaves_with_a_parent_that_never_took_it() -> None:
    early = start_early(answer)
    early._link.close()

    assert os.waitstatus_to_exitcode(os.waitpid(early._pid, 0)[1]) == 0
