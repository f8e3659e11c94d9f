"""A supervisor that is forked before its run is known."""

from __future__ import annotations

import os
import signal
import socket
import time

from runyard.supervisor.own_processes import hear, is_taken, prefork_supervisor, tell_path

PATH = "/runs/exp_1/1"
ANSWER = bytes(range(256)) * 5000  # more than a socket holds


def take_part(link: socket.socket) -> int:
    if hear(link) != ANSWER:
        return 2
    tell_path(link, PATH)
    if not is_taken(link):
        return 3
    link.sendall(b"took it " + link.recv(100))
    return 7


def wait_for_kill(link: socket.socket) -> int:
    time.sleep(60)
    return 0


def test_it_tells_its_folder_and_goes_on_when_it_is_taken() -> None:
    early = prefork_supervisor(take_part)
    early.tell(ANSWER)
    assert early.wait_for_path() == PATH
    taken = early.take(PATH)
    assert taken is not None
    pid, link = taken
    link.sendall(b"state")

    assert link.recv(100) == b"took it state"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    link.close()


def test_it_leaves_with_a_parent_that_had_nothing_to_tell() -> None:
    early = prefork_supervisor(lambda link: 0 if hear(link) == b"" else 1)
    early._link.close()

    assert early.wait() == 0


def test_one_that_leaves_without_a_folder_tells_by_its_exit_code() -> None:
    early = prefork_supervisor(lambda _: 5)

    assert early.wait_for_path() == ""
    assert early.wait() == 5
    early._link.close()


def test_one_that_was_killed_is_not_taken() -> None:
    early = prefork_supervisor(wait_for_kill)
    os.kill(early._pid, signal.SIGKILL)
    os.waitid(os.P_PID, early._pid, os.WEXITED | os.WNOWAIT)

    early.tell(ANSWER)
    assert early.wait_for_path() == ""
    assert early.take(PATH) is None


def test_it_leaves_with_a_parent_that_never_took_it() -> None:
    early = prefork_supervisor(take_part)
    early.tell(ANSWER)
    assert early.wait_for_path() == PATH
    early._link.close()

    assert early.wait() == 3
