"""A node of a cluster takes its part of a run: from the ticket in its environment to a run folder of its own."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import sys
import time
from dataclasses import replace
from typing import List, Mapping, Optional

from runyard.client.address import Address
from runyard.client.nodes import NodeCalls
from runyard.client.transport import Transport
from runyard.core.errors import InvalidArgument, SystemFailure
from runyard.core.folders import runs_folder
from runyard.core.gpus import NO_DEVICE, VISIBLE
from runyard.core.names import check_run_id
from runyard.core.node_variables import node_variables
from runyard.core.plain import from_plain, to_plain
from runyard.core.settings import Settings
from runyard.core.specs import EnvironmentSpec, JobSpec, NodeSpec
from runyard.core.tickets import VARIABLE, Ticket, read_ticket
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.loops import Backoff
from runyard.supervisor.node_tools import with_uv

logger = logging.getLogger(__name__)

_RANKS = ("SLURM_PROCID",)  # where an engine says which of the job's nodes this is


def take_part(settings: Settings, environ: Mapping[str, str]) -> RunFolder:
    """Join the run that the ticket names and return the folder with this node's job, ready to run.

    Raises:
        UserError: the server gives this node nothing: another process has its part, or the run is over.
    """
    ticket = read_ticket(environ.get(VARIABLE, ""))
    rank = _find_rank(ticket, environ)
    host, address = socket.gethostname(), ticket.address or own_address(ticket)
    nodes = _calls(ticket)
    job = _join(nodes, ticket, rank, host=host, address=address)
    node = NodeSpec(rank, address, host, _list_gpus(environ))
    here = _on_this_node(job, ticket, node, settings, environ)
    return _write(settings, replace(here, submitter=with_uv(here, nodes)))


def environment_here(spec: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment with an interpreter that this node has.

    Who names none means the one that submits; where that is not on this node, the node's own takes its place. One that
    a user named must be there.
    """
    named = ((spec.definition.get("python") or {}).get("interpreterPath") or "python") != "python"
    is_here = spec.interpreter is not None and os.access(spec.interpreter, os.X_OK)
    return spec if named or is_here or spec.kind == "container" else replace(spec, interpreter=sys.executable)


def own_address(ticket: Ticket) -> str:
    """Return the address from which this machine reaches the server: its peers reach it there."""
    server = from_plain(Address, ticket.server)
    if server.kind == "unix":
        return _address_of(socket.gethostname())
    family = socket.AF_INET6 if ":" in str(server.host) else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:  # nothing is sent
        sock.connect((str(server.host).strip("[]"), int(server.port or 0)))
        return str(sock.getsockname()[0])


def node_folder(settings: Settings, run_id: str, attempt: int, rank: int) -> str:
    """Return the run folder of one node; several nodes of a job may be on one machine."""
    name = str(attempt) if rank == 0 else f"{attempt}-{rank}"
    return str(runs_folder(settings.home) / check_run_id(run_id) / name)


def _calls(ticket: Ticket) -> NodeCalls:
    return NodeCalls(Transport(from_plain(Address, {**ticket.server, "token": ticket.token})))


def _join(nodes: NodeCalls, ticket: Ticket, rank: int, *, host: str, address: str) -> JobSpec:
    """Ask until the server answers: it may be away for a moment."""
    incarnation, backoff = os.urandom(16).hex(), Backoff()
    while True:
        try:
            return nodes.join(
                ticket.run_id, rank, attempt=ticket.attempt, incarnation=incarnation, host=host, address=address
            )
        except SystemFailure as error:
            logger.debug("waiting for the server: %s", error)
        time.sleep(backoff.next_s())


def _on_this_node(
    job: JobSpec, ticket: Ticket, node: NodeSpec, settings: Settings, environ: Mapping[str, str]
) -> JobSpec:
    shared = os.path.join(ticket.shared_folder, job.run_id, str(job.attempt)) if ticket.shared_folder else ""
    return replace(
        job,
        server={**ticket.server, "token": ticket.token, "home": None},
        token=ticket.token,
        # Nodes on one machine must not take each other's processes for their own.
        cookie=hashlib.sha256(f"{job.cookie}\0{node.rank}".encode()).hexdigest()[:32],
        home=str(settings.home),
        node_rank=node.rank,
        nodes=[node],
        submitter=node_variables(environ),
        spec=replace(job.spec, environment=environment_here(job.spec.environment)),
        shared_folder=shared,
    )


def _write(settings: Settings, job: JobSpec) -> RunFolder:
    path = node_folder(settings, job.run_id, job.attempt, job.node_rank)
    os.makedirs(path, 0o700, exist_ok=True)
    folder = RunFolder(path)
    folder.write("job.json", to_plain(job), durable=True)
    return folder


def _find_rank(ticket: Ticket, environ: Mapping[str, str]) -> int:
    said = next((environ[name] for name in _RANKS if name in environ), "0")
    if ticket.node_rank is None and not said.isdigit():
        raise InvalidArgument(f"The engine says that this is node {said!r} of the job, which is not a number.")
    return int(said) if ticket.node_rank is None else ticket.node_rank


def _list_gpus(environ: Mapping[str, str]) -> List[str]:
    """Return the devices that the engine gave this node; none where it does not say."""
    said: Optional[str] = environ.get(VISIBLE)
    return [] if said is None else [part.strip() for part in said.split(",") if part.strip()] or [NO_DEVICE]


def _address_of(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return "127.0.0.1"
