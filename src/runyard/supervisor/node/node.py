"""A node of a cluster takes its part of a run: from the ticket in its environment to a reaper and a supervisor.

There are two processes from the start, because a start consists mostly of imports. The child imports what a supervisor
needs. Meanwhile the parent asks the server for the job, passes the answer on and prepares to be the reaper. So each
imports its own modules late, and this module holds only what both need.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Mapping, NamedTuple

from runyard.core.config.settings import Settings, read_settings
from runyard.core.errors import InvalidArgument, RunyardError, UserError
from runyard.core.tickets import VARIABLE, NodeTicket, read_ticket
from runyard.supervisor.own_processes import (
    detach_from_starter,
    detach_session,
    hear,
    is_taken,
    prefork_supervisor,
    tell_path,
)

_RANKS = ("SLURM_PROCID",)  # variables in which a cluster passes the rank of this node


class Here(NamedTuple):
    """This node: its ticket, its rank, its host name, and the address at which other nodes reach it."""

    ticket: NodeTicket
    rank: int
    host: str
    address: str


def main() -> int:
    """Be a node of a run, as the ticket in the environment says, until its part has ended; return the exit code.

    Runs in the process that becomes the reaper.
    """
    umask = os.umask(0o077)
    detach_session()
    try:
        here = find_place(read_ticket(os.environ.get(VARIABLE, "")), os.environ)
    except UserError as error:
        return _refused(error)
    settings = read_settings()
    early = prefork_supervisor(lambda link: _supervise(here, settings, link, umask))
    from runyard.supervisor.node.join import join

    try:
        answer = join(here)
    except RunyardError as error:
        return _refused(error)
    early.tell(answer)
    from runyard.supervisor.main import run
    from runyard.supervisor.proc import set_subreaper
    from runyard.supervisor.run_folder import RunFolder

    set_subreaper(True)  # `run` needs it soon; its import of ctypes is done while the supervisor works
    _collect_again()
    path = early.wait_for_path()
    if not path:
        return early.wait()
    os.environ.pop(VARIABLE, None)
    detach_from_starter()
    return run(RunFolder(path), settings, umask, early=early)


def find_place(ticket: NodeTicket, environ: Mapping[str, str]) -> Here:
    """Return which node of the job this is. Raises InvalidArgument when the cluster's rank is not a number."""
    said = next((environ[name] for name in _RANKS if name in environ), "0")
    if ticket.node_rank is None and not said.isdigit():
        raise InvalidArgument(f"The cluster says that this is node {said!r} of the job, which is not a number.")
    rank = int(said) if ticket.node_rank is None else ticket.node_rank
    return Here(ticket, rank, socket.gethostname(), ticket.address or own_address(ticket))


def own_address(ticket: NodeTicket) -> str:
    """Return this machine's address on the route to the server: other nodes reach it there."""
    if ticket.server["kind"] == "unix":
        return _address_of(socket.gethostname())
    host = str(ticket.server["host"]).strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:  # nothing is sent
        sock.connect((host, int(ticket.server["port"])))
        return str(sock.getsockname()[0])


def _supervise(here: Here, settings: Settings, link: socket.socket, umask: int) -> int:
    """Be the supervisor, in the forked child: make the run folder, and go on when the parent takes this process."""
    from runyard.supervisor import supervisor  # noqa: F401  # the longest import, done while the parent asks the server
    from runyard.supervisor.entry import supervise
    from runyard.supervisor.node.job import take_part

    answer = hear(link)
    if not answer:
        return 0  # the parent has ended: the server gave this node nothing
    folder = take_part(here, answer, settings, os.environ)
    tell_path(link, folder.path)
    os.environ.pop(VARIABLE, None)
    _collect_again()
    if not is_taken(link):
        return 0
    detach_from_starter()
    cookie = str(folder.read_object("job.json").get("cookie", ""))
    return supervise(folder, settings, link, umask, cookie)


def _collect_again() -> None:
    """Enable the garbage collector, which `bootstrap.py` disabled; objects that exist now are never scanned."""
    gc.freeze()
    gc.enable()


def _refused(error: RunyardError) -> int:
    sys.stderr.write(f"runyard: {error}\n")
    return 0


def _address_of(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return "127.0.0.1"
