"""A node of a cluster takes its part of a run: from the ticket in its environment to a run folder of its own.

It asks for its part before it imports most of what it needs. Then there are two: the supervisor, which waits for the
answer, and its parent, which becomes the reaper. Imports are most of a start, so each has its own, where it needs them.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Mapping

from runyard.client.address import Address
from runyard.client.nodes import Joining
from runyard.client.transport import Transport
from runyard.core.errors import InvalidArgument, UserError
from runyard.core.plain import from_plain
from runyard.core.settings import Settings, read_settings
from runyard.core.tickets import VARIABLE, Ticket, read_ticket
from runyard.supervisor.early import is_taken, start_early, tell_path
from runyard.supervisor.leaving import leave_the_session, leave_the_starter

_RANKS = ("SLURM_PROCID",)  # where an engine says which of the job's nodes this is


def main() -> int:
    """Be a node as the ticket in the environment says, until its part has ended."""
    umask = os.umask(0o077)
    leave_the_session()
    try:
        part = Part(read_ticket(os.environ.get(VARIABLE, "")), os.environ)
    except UserError as error:
        return _refused(error)
    settings = read_settings()
    early = start_early(lambda link: _supervise(part, settings, link, umask))
    part.joining.forget()
    from runyard.supervisor.folder import RunFolder
    from runyard.supervisor.modes import run
    from runyard.supervisor.proc import set_subreaper

    set_subreaper(True)  # `run` needs it soon, and there is time now
    _collect_again()
    path = early.wait_for_path()
    if not path:
        return early.wait()
    os.environ.pop(VARIABLE, None)
    leave_the_starter()
    folder = RunFolder(path)
    folder.make_durable("job.json")
    return run(folder, settings, umask, early=early)


class Part:
    """What this node asks for; the question is under way."""

    def __init__(self, ticket: Ticket, environ: Mapping[str, str]) -> None:
        self.ticket = ticket
        self.rank = _find_rank(ticket, environ)
        self.host = socket.gethostname()
        self.address = ticket.address or own_address(ticket)
        self.transport = Transport(from_plain(Address, {**ticket.server, "token": ticket.token}))
        self.joining = Joining(
            self.transport,
            ticket.run_id,
            self.rank,
            attempt=ticket.attempt,
            incarnation=os.urandom(16).hex(),
            host=self.host,
            address=self.address,
        )


def _supervise(part: Part, settings: Settings, link: socket.socket, umask: int) -> int:
    """Be the supervisor: take part, and go on when the parent has claimed the run folder."""
    from runyard.supervisor.node_part import take_part

    try:
        folder = take_part(part, settings, os.environ)
    except UserError as error:
        return _refused(error)
    tell_path(link, folder.path)
    os.environ.pop(VARIABLE, None)
    from runyard.supervisor import supervisor  # noqa: F401  # while the parent claims
    from runyard.supervisor.supervising import supervise

    _collect_again()
    if not is_taken(link):
        return 0
    leave_the_starter()
    cookie = str(folder.read_object("job.json").get("cookie", ""))
    return supervise(folder, settings, link, umask, cookie)


def _collect_again() -> None:
    """node_start.py turned it off; what is there now stays anyway."""
    gc.freeze()
    gc.enable()


def _refused(error: UserError) -> int:
    sys.stderr.write(f"runyard: {error}\n")
    return 0


def own_address(ticket: Ticket) -> str:
    """Return the address from which this machine reaches the server: its peers reach it there."""
    server = from_plain(Address, ticket.server)
    if server.kind == "unix":
        return _address_of(socket.gethostname())
    family = socket.AF_INET6 if ":" in str(server.host) else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:  # nothing is sent
        sock.connect((str(server.host).strip("[]"), int(server.port or 0)))
        return str(sock.getsockname()[0])


def _find_rank(ticket: Ticket, environ: Mapping[str, str]) -> int:
    said = next((environ[name] for name in _RANKS if name in environ), "0")
    if ticket.node_rank is None and not said.isdigit():
        raise InvalidArgument(f"The engine says that this is node {said!r} of the job, which is not a number.")
    return int(said) if ticket.node_rank is None else ticket.node_rank


def _address_of(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return "127.0.0.1"
