"""What a process of ours leaves behind: the session, the signals and the files of who started it.

A supervisor that is born before its run is known: it takes part while its parent gets ready to be the reaper.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
from typing import Callable, Optional, Tuple

IGNORED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)


def detach_session() -> None:
    """A terminal's Ctrl-C or hang-up is not for us."""
    try:
        os.setsid()
    except PermissionError:  # we lead a group already
        pass
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)


def detach_from_starter() -> None:
    """Let go of everything that ties this process to who started it."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


_LENGTH = struct.Struct("<Q")


class PreforkedSupervisor:
    """The parent's end. Who was never taken ends by itself when the parent does."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self._pid = pid
        self._link = link

    def tell(self, data: bytes) -> None:
        """Give it what it waits for. One that has died is noticed by `wait_for_path`."""
        try:
            _say(self._link, data)
        except OSError:
            pass

    def wait_for_path(self) -> str:
        """Return the run folder that it made; "" when it has left without one."""
        return os.fsdecode(hear(self._link))

    def wait(self) -> int:
        """Wait until it has left and return its exit code."""
        status = os.waitpid(self._pid, 0)[1]
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1

    def take(self, path: str) -> Optional[Tuple[int, socket.socket]]:
        """Let it go on with that run folder; return its pid and the socket to it. None: it has died.

        To be called when SIGCHLD is listened to: who dies later is noticed by that.
        """
        try:
            if os.waitpid(self._pid, os.WNOHANG)[0] == 0:
                _say(self._link, os.fsencode(path))
                return self._pid, self._link
        except OSError:
            pass  # it dies at this moment
        self._link.close()
        return None


def prefork_supervisor(supervise: Callable[[socket.socket], int]) -> PreforkedSupervisor:
    """Fork the process that calls `supervise` with its end of the socket."""
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
        import traceback  # only who fails needs it

        traceback.print_exc()
    finally:
        os._exit(code)


def hear(link: socket.socket) -> bytes:
    """Return what the other end says; nothing when it has left instead. What follows in the socket is not touched."""
    head = _receive(link, _LENGTH.size)
    return _receive(link, _LENGTH.unpack(head)[0]) if head else b""


def tell_path(link: socket.socket, path: str) -> None:
    """The child's word: this is the run folder."""
    _say(link, os.fsencode(path))


def is_taken(link: socket.socket) -> bool:
    """Wait for the parent's word; False: it has left."""
    return bool(hear(link))


def _say(link: socket.socket, data: bytes) -> None:
    link.sendall(_LENGTH.pack(len(data)) + data)


def _receive(link: socket.socket, size: int) -> bytes:
    """Return exactly so many bytes; none when the other end is closed before."""
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
