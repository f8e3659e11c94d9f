"""A supervisor that is born before its run is known: it imports what it needs while its parent joins the run."""

from __future__ import annotations

import os
import socket
import traceback
from typing import Callable, Optional, Tuple

MOST = 8192  # bytes of a run folder's path


class Early:
    """The parent's end. Who was never taken ends by itself when the parent does."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self._pid = pid
        self._link = link

    def take(self, path: str) -> Optional[Tuple[int, socket.socket]]:
        """Give it the run folder; return its pid and the socket to it. None: it has died.

        To be called when SIGCHLD is listened to: who dies later is noticed by that.
        """
        try:
            if os.waitpid(self._pid, os.WNOHANG)[0] == 0:
                self._link.sendall(os.fsencode(path) + b"\n")
                return self._pid, self._link
        except OSError:
            pass  # it dies at this moment
        self._link.close()
        return None


def start_early(supervise: Callable[[str, socket.socket], int]) -> Early:
    """Fork the process that will call `supervise` with the run folder's path and its end of the socket."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return Early(pid, ours)
    code = 1
    try:
        ours.close()
        # What the time is for: the longest import of a node's start.
        from runyard.supervisor import supervisor  # noqa: F401

        path = _wait_for_path(theirs)
        code = supervise(path, theirs) if path else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait_for_path(link: socket.socket) -> str:
    """Return the path; "" when the parent has left. What follows in the socket is the supervisor's."""
    path = b""
    while not path.endswith(b"\n"):
        part = link.recv(1)
        if not part or len(path) > MOST:
            return ""
        path += part
    return os.fsdecode(path[:-1])
