"""Ports for the processes of a job: no two runs of this machine get the same one, whoever's they are.

A port is ours while we hold an abstract unix socket that is named after it: all users share these names, and the
kernel frees them with the process. The port itself stays free for the run's own process to bind.
"""

from __future__ import annotations

import errno
import resource
import socket
from typing import List, Optional, Sequence

from runyard.core.errors import SystemFailure
from runyard.launchers.base import LEAST_PORTS, LOWEST_PORT

TRIES = 2000
_LOCAL_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_HIGHEST = 32767  # where the ports usually begin that the kernel gives out


class Ports:
    """Holds ports as long as it lives. `take` finds free ones, `hold` takes an earlier supervisor's again."""

    def __init__(self) -> None:
        self._held: List[socket.socket] = []

    def take(self, counts: Sequence[int], *, preferred: Optional[int] = None) -> List[List[int]]:
        """Return a list of ports for each node: a range of its own, the first one with `preferred` in front if free.

        Raises:
            SystemFailure: there are not enough.
        """
        if counts:
            _allow_many_files()
        found = [self._take_range(max(count, LEAST_PORTS)) for count in counts]
        if found and preferred is not None and self._try_hold(preferred):
            found[0].insert(0, preferred)
        return found

    def hold(self, ports: Sequence[Sequence[int]]) -> None:
        """Take them again. One that somebody else took meanwhile is not ours any more, which nobody can change."""
        for port in (port for of_node in ports for port in of_node):
            self._hold_name(port)

    def close(self) -> None:
        while self._held:
            self._held.pop().close()

    def _take_range(self, count: int) -> List[int]:
        import random  # most runs take no ports

        highest = _highest()
        for _ in range(TRIES):
            first = random.randrange(LOWEST_PORT, highest - count)
            kept = len(self._held)
            if all(self._try_hold(port) for port in range(first, first + count)):
                return list(range(first, first + count))
            while len(self._held) > kept:
                self._held.pop().close()
        raise SystemFailure(
            f"There are no {count} free ports in a row between {LOWEST_PORT} and {highest}.",
            why="Other programs of this machine listen on them.",
            hint="End programs that are not needed; `ss -tln` lists who listens.",
        )

    def _try_hold(self, port: int) -> bool:
        return is_free(port) and self._hold_name(port)

    def _hold_name(self, port: int) -> bool:
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            name.bind(f"\0runyard-port-{port}")
        except OSError:
            name.close()
            return False
        self._held.append(name)
        return True


def is_free(port: int) -> bool:
    """Whether a process could listen on it, on every address of this machine."""
    return _can_listen(socket.AF_INET, "0.0.0.0", port) and _can_listen(socket.AF_INET6, "::", port)


def _allow_many_files() -> None:
    """Each port is an open file of ours; hundreds of nodes need more than a process usually may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _can_listen(family: int, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError:  # a kernel without IPv6
        return True
    with probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server does: old connections linger
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            return error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # IPv6 is switched off
    return True


def _highest() -> int:
    """Return the last port that the kernel does not give out by itself."""
    try:
        with open(_LOCAL_RANGE, "rb") as file:
            lowest_given = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST
    return lowest_given - 1 if lowest_given > LOWEST_PORT + 1000 else 65535
