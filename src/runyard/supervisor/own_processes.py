"""What a process of ours leaves behind: the session, the signals and the files of who started it."""

from __future__ import annotations

import os
import signal

IGNORED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)


def leave_the_session() -> None:
    """A terminal's Ctrl-C or hang-up is not for us."""
    try:
        os.setsid()
    except PermissionError:  # we lead a group already
        pass
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)


def leave_the_starter() -> None:
    """Let go of everything that ties this process to who started it."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
