"""Tickets: all that a node of a cluster needs to take its part in a run, in one variable that a backend sets."""

from __future__ import annotations

import base64
import json
from dataclasses import field
from typing import Any, Dict, Optional

from runyard.core.errors import InvalidArgument
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import JobSpec

VARIABLE = "RUNYARD_TICKET"  # never in an argv: other users of a node see those


@dataclass(frozen=True)
class NodeTicket:
    """Everything else, the job included, comes from the server. `node_rank` None: the cluster sets it on the node."""

    run_id: str
    attempt: int
    server: Dict[str, Any]  # client.address.Address as a dict, without a token
    token: str = field(repr=False)  # the run's own
    bundle: str  # SHA-256 of the archive with our code: `GET /nodes/bundle`
    node_rank: Optional[int] = None
    node_home: str = ""  # the folder on the node for run folders, environments, bundles; "": /var/tmp/runyard-<uid>
    address: str = ""  # under which the other nodes reach this one; "": from where it reaches the server
    shared_folder: str = ""  # on a file system that all nodes see; "": there is none


def ticket_of(job: JobSpec, *, node_rank: Optional[int] = None, **options: str) -> NodeTicket:
    """Return a node's ticket for the job. `options`: node_home, address, shared_folder."""
    server = {**job.server, "token": ""}
    return NodeTicket(job.run_id, job.attempt, server, job.token, job.bundle, node_rank, **options)


def write_ticket(ticket: NodeTicket) -> str:
    return base64.urlsafe_b64encode(json.dumps(to_plain(ticket), separators=(",", ":")).encode()).decode("ascii")


def read_ticket(word: str) -> NodeTicket:
    """Raises InvalidArgument."""
    try:
        return from_plain(NodeTicket, json.loads(base64.urlsafe_b64decode(word.encode("ascii"))))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidArgument(f"{VARIABLE} does not hold a ticket.", why=f"{error}.") from error
