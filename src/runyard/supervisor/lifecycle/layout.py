"""Lays out the processes of the job's nodes that run here, with the ports they use: the content of `launch.json`.

No two runs of this machine get the same port, not even runs of different users. A port is taken as long as we hold an
abstract unix socket named after it: all users share these names, and the kernel frees them with the process. The port
itself stays free for the run's own process to bind.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import struct
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, List, Mapping, NamedTuple, Optional, Sequence

from runyard.core.errors import SystemFailure
from runyard.core.formats.plain import to_plain
from runyard.core.specs import JobSpec, NodeSpec
from runyard.launchers import get_launcher
from runyard.launchers.base import LEAST_PORTS, LOWEST_PORT, Launcher, Placement, nodes_of
from runyard.supervisor.run_folder import RunFolder, work_folder

if TYPE_CHECKING:
    from runyard.core.formats.run_files import LaunchPlan

TRIES = 2000
_LOCAL_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_HIGHEST = 32767  # above it are usually the ports that the kernel gives out
_SIOCGIFADDR = 0x8915
_NAME_BYTES = 256
MPI = "mpi"


class Ports:
    """The ports that this supervisor holds for its run until its process ends. Only the main thread uses it."""

    def __init__(self) -> None:
        self._held: List[socket.socket] = []

    def take(self, counts: Sequence[int], *, preferred: Optional[int] = None) -> List[List[int]]:
        """Return a range of free ports for each node; `preferred` comes first in the first range if it is free.

        Raises:
            SystemFailure: there are not enough free ports.
        """
        if counts:
            _allow_many_files()
        found = [self._take_range(max(count, LEAST_PORTS)) for count in counts]
        if found and preferred is not None and self._try_hold(preferred):
            found[0].insert(0, preferred)
        return found

    def hold(self, ports: Sequence[Sequence[int]]) -> None:
        """Hold the ports of an earlier supervisor again. A port that another run took meanwhile is silently lost."""
        for port in (port for of_node in ports for port in of_node):
            self._hold_name(port)

    def close(self) -> None:
        """Release all ports. May be repeated."""
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
    """Return whether a process could listen on the port, on every address of this machine."""
    return _can_listen(socket.AF_INET, "0.0.0.0", port) and _can_listen(socket.AF_INET6, "::", port)


def _allow_many_files() -> None:
    """Raise the limit of open files: each port is an open socket, and hundreds of nodes need many."""
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
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, because old connections linger
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            return error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # IPv6 is switched off
    return True


def _highest() -> int:
    """Return the last port below those that the kernel gives out by itself."""
    try:
        with open(_LOCAL_RANGE, "rb") as file:
            lowest_given = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST
    return lowest_given - 1 if lowest_given > LOWEST_PORT + 1000 else 65535


def find_interface(address: str) -> str:
    """Return the name of the network interface whose first IPv4 address is `address`; "" when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        for _, name in socket.if_nameindex():
            if _address_of(sock, name) == address:
                return name
    return ""


def _address_of(sock: socket.socket, name: str) -> str:
    request = struct.pack(f"{_NAME_BYTES}s", name.encode()[:15])
    try:
        return socket.inet_ntoa(fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)[20:24])
    except OSError:  # the interface has no IPv4 address
        return ""


class Meeting(NamedTuple):
    """All nodes of a job and the ports of each, both by rank."""

    nodes: List[NodeSpec]
    ports: List[List[int]]


def take_ports(job: JobSpec, ports: Ports) -> List[List[int]]:
    """Take the ports that the launcher needs for the nodes that run here.

    Raises:
        SystemFailure: there are not enough free ports.
    """
    launcher = get_launcher(job.spec.distribution.kind)
    counts = launcher.count_ports(job)
    if job.is_gang:
        counts = counts[job.node_rank : job.node_rank + 1]
    return ports.take(counts, preferred=launcher.preferred_port if job.node_rank == 0 else None)


def lay_out(
    folder: RunFolder,
    job: JobSpec,
    *,
    interpreter: str,
    variables: Mapping[str, str],
    injection: str,
    meeting: Meeting,
) -> LaunchPlan:
    """Return `{processes, ports}` of the nodes that run here; for a gang also `ranks`, the number in the whole job.

    For MPI it also writes mpirun's programs into the run folder. May be repeated before the launch.

    Raises:
        SubmitRejected: the job cannot be laid out, or what it needs is not installed.
    """
    launcher = get_launcher(job.spec.distribution.kind)
    first = work_folder(folder, job, 0)
    placement = Placement(
        work_folder=first,
        interpreter=interpreter,
        base_variables=dict(variables),
        node_rank=job.node_rank,
        nodes=meeting.nodes,
        ports=meeting.ports,
        run_folder=folder.path,
        injection=injection,
        shared_folder="" if job.is_gang and not job.shared_folder else first,
        interface=find_interface(meeting.nodes[job.node_rank].address) if job.is_gang else "",
        cores=len(os.sched_getaffinity(0)),
    )
    if job.spec.distribution.kind == MPI:
        placement = _with_mpi(folder, placement)
    own = nodes_of(job)
    placements = [_at_node(folder, job, placement, node) for node in own]
    processes = [process for one in placements for process in launcher.layout(job, one)]
    ports = [meeting.ports[node.rank] for node in own if meeting.ports]
    plan: LaunchPlan = {"processes": [to_plain(process) for process in processes], "ports": ports}
    if job.is_gang:
        plan["ranks"] = _count_ranks(launcher, job, placement)
    return plan


def _count_ranks(launcher: Launcher, job: JobSpec, placement: Placement) -> int:
    everywhere = (launcher.layout(job, replace(placement, node_rank=node.rank)) for node in placement.nodes)
    return sum(process.rank >= 0 for processes in everywhere for process in processes)


def _at_node(folder: RunFolder, job: JobSpec, placement: Placement, node: NodeSpec) -> Placement:
    return replace(placement, node_rank=node.rank, work_folder=work_folder(folder, job, node.rank))


def _with_mpi(folder: RunFolder, placement: Placement) -> Placement:
    # Imported here: only MPI jobs need it.
    from runyard.supervisor.mpi.agent_server import write_agent, write_rank_program
    from runyard.supervisor.mpi.find import find_mpi

    mpi = find_mpi(placement.interpreter, placement.base_variables.get("PATH", os.defpath))
    write_agent(folder, sys.executable)
    write_rank_program(folder, placement)
    return replace(placement, mpi=mpi)
