"""The sockets: a unix one that only the owner can open, a loopback port for the browser, and a team's."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress
from typing import Any

from runyard.core.errors import ServerNotStarted

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
BACKLOG = 1024


class UnixSocket:
    """A listening socket at `path`, mode 0600. The caller holds the home's lock: a file that is there is left over."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.listeners = [_bind_unix(path)]
        self._file = _pin(path)

    def find_again(self) -> socket.socket | None:
        """Return a new listener when the path's name is gone: something cleaned the folder for temporary files."""
        if self._is_in_place():
            return None
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            listener = _bind_unix(self.path)
            file = _pin(self.path)
        except OSError as error:
            logger.warning("The socket %s is gone and cannot be made again: %s", self.path, error)
            return None
        logger.warning("The socket %s was removed; it is there again.", self.path)
        os.close(self._file)
        self._file = file
        self.listeners.append(listener)
        return listener

    def close(self) -> None:
        """Stop listening and remove the socket's file unless another server's is there by now. May be called twice."""
        if self._file < 0:
            return
        with suppress(OSError):
            if self._is_in_place():
                os.unlink(self.path)
        os.close(self._file)
        self._file = -1
        for listener in self.listeners:
            listener.close()

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.lstat(self.path))
        except OSError:
            return False


def _pin(path: str) -> int:
    """Open the socket's file without connecting, so that no later file can get the same inode number.

    The event loop closes the listeners before `close` is called. A file system gives a free number out again, so the
    old server would take the file of the next one for its own and remove it.
    """
    return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)


def _bind_unix(path: str) -> socket.socket:
    with suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(path)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address of this machine; a name is looked up.

    Raises:
        ServerNotStarted: the name is unknown, the address is not ours, or the port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        return _listening(family, address)
    except (OSError, OverflowError, UnicodeError) as error:
        raise ServerNotStarted(
            f"The server cannot listen on {host}, port {port}.",
            why=f"{error}.",
            hint="`ip address` lists the addresses of this machine, `ss -ltnp` who has which port.",
        ) from error


def bind_loopback(wanted: int, kept: int | None) -> socket.socket:
    """Return a listening socket on 127.0.0.1: on port `wanted` if given, else on the one kept from before, else on any.

    Raises:
        ServerNotStarted: the user asked for a port that is taken.
    """
    if wanted:
        try:
            return _bind_tcp(wanted)
        except (OSError, OverflowError) as error:
            raise ServerNotStarted(
                f"The private server cannot listen on port {wanted}.",
                why=f"{error}.",
                hint="Unset RUNYARD_PORT to let it pick one, or set another.",
            ) from error
    if kept is not None:
        try:
            return _bind_tcp(kept)
        except OSError as error:
            logger.warning("Port %d, kept from before, is taken (%s). Picking another: old links die.", kept, error)
    return _bind_tcp(0)


def _bind_tcp(port: int) -> socket.socket:
    return _listening(socket.AF_INET, (LOOPBACK, port))


def _listening(family: int, address: Any) -> socket.socket:
    # asyncio sends without delay on what it knows to be TCP; otherwise an answer in two pieces takes 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Connections of the server before may linger in TIME_WAIT; a listener of another process still is an error.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
