"""How our processes detach from their starter, and how a supervisor is forked before its run is known.

On a cluster's node the forked child imports what a supervisor needs, while its parent prepares to be the reaper. They
exchange messages with a length in front over a socketpair; later `ReaperClient` uses the same socket. Measured with the
supervisor forked after the imports instead: +9 ms on 115 from a node's start to the script's first line on idle cores.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
from typing import Callable, Optional, Tuple

IGNORED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)


def detach_session() -> None:
    """Start a session of our own and ignore signals: a terminal's Ctrl-C or hang-up must not end this process."""
    try:
        os.setsid()
    except PermissionError:  # we lead a group already
        pass
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)


def detach_from_starter() -> None:
    """Leave the starter's working directory, and point the standard streams to /dev/null."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


_LENGTH = struct.Struct("<Q")


class PreforkedSupervisor:
    """The parent's end of the socket to the supervisor that it forked. Only the parent's main thread uses it.

    A supervisor that is never taken ends by itself when the parent does.
    """

    def __init__(self, pid: int, link: socket.socket) -> None:
        self._pid = pid
        self._link = link

    def tell(self, data: bytes) -> None:
        """Send the server's answer. `wait_for_path` notices when the supervisor has died."""
        try:
            _say(self._link, data)
        except OSError:
            pass

    def wait_for_path(self) -> str:
        """Return the run folder that the supervisor made; "" when it has ended without one."""
        return os.fsdecode(hear(self._link))

    def wait(self) -> int:
        """Wait until the supervisor has ended, and return its exit code."""
        status = os.waitpid(self._pid, 0)[1]
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1

    def take(self, path: str) -> Optional[Tuple[int, socket.socket]]:
        """Let the supervisor go on with that run folder; return its pid and the socket, None when it has died.

        The reaper calls this when it already listens to SIGCHLD, by which it notices a later death.
        """
        try:
            if os.waitpid(self._pid, os.WNOHANG)[0] == 0:
                _say(self._link, os.fsencode(path))
                return self._pid, self._link
        except OSError:
            pass  # the supervisor dies at this moment
        self._link.close()
        return None


def prefork_supervisor(supervise: Callable[[socket.socket], int]) -> PreforkedSupervisor:
    """Fork a process that calls `supervise` with its end of the socket."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return PreforkedSupervisor(pid, ours)
    code = 1
    try:
        ours.close()
        code = supervise(theirs)
    except BaseException:
        import traceback  # only a failure needs it

        traceback.print_exc()
    finally:
        os._exit(code)


def hear(link: socket.socket) -> bytes:
    """Return the next message, b"" when the other end is closed. Leaves what follows in the socket."""
    head = _receive(link, _LENGTH.size)
    return _receive(link, _LENGTH.unpack(head)[0]) if head else b""


def tell_path(link: socket.socket, path: str) -> None:
    """Tell the parent which run folder the supervisor made."""
    _say(link, os.fsencode(path))


def is_taken(link: socket.socket) -> bool:
    """Wait until the parent takes this supervisor; False when the parent has ended."""
    return bool(hear(link))


def _say(link: socket.socket, data: bytes) -> None:
    link.sendall(_LENGTH.pack(len(data)) + data)


def _receive(link: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes; b"" when the other end closes earlier."""
    pieces = []
    while size:
        try:
            piece = link.recv(min(size, 1 << 20))
        except OSError:
            piece = b""
        if not piece:
            return b""
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
