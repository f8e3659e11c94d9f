"""The two sockets: a unix one that only the owner can open, and a loopback port for the browser."""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import suppress

from runyard.core.errors import ServerNotStarted

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_BACKLOG = 1024


def bind_unix(path: str) -> socket.socket:
    """Return a listening socket at `path`, mode 0600. Who calls holds the home's lock: what is there is left over."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(path)
    finally:
        os.umask(before)
    sock.listen(_BACKLOG)
    return sock


def unlink_own(path: str, inode: tuple[int, int]) -> None:
    """Remove the socket's name unless somebody else's is there by now."""
    with suppress(OSError):
        if inode_of(path) == inode:
            os.unlink(path)


def inode_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def bind_loopback(wanted: int, kept: int | None) -> socket.socket:
    """Return a listening socket on 127.0.0.1: on port `wanted` if given, else on the one kept from before, else on any.

    Raises:
        ServerNotStarted: the user asked for a port that is taken.
    """
    if wanted:
        try:
            return _bind_tcp(wanted)
        except OSError as error:
            raise ServerNotStarted(
                f"The private server cannot listen on port {wanted}.",
                why=f"{os.strerror(error.errno or errno.EADDRINUSE)}.",
                hint="Unset RUNYARD_PORT to let it pick one, or set another.",
            ) from error
    if kept is not None:
        try:
            return _bind_tcp(kept)
        except OSError as error:
            logger.warning("Port %d, kept from before, is taken (%s). Picking another: old links die.", kept, error)
    return _bind_tcp(0)


def _bind_tcp(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections of the server before may linger in TIME_WAIT; a listener of somebody else still is an error.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
