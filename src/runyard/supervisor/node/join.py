"""A node of a cluster asks the server for its part of a run until the server answers."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from runyard.client.address import Address
from runyard.client.calls.nodes import NodeCalls
from runyard.client.transport import Transport
from runyard.core.errors import NotTrusted, RunyardError, is_later
from runyard.core.formats.plain import from_plain
from runyard.supervisor.shipping.loops import Backoff

if TYPE_CHECKING:
    from runyard.supervisor.node.node import Here


def join(here: Here) -> bytes:
    """Return the server's answer, undecoded. Called in the process that becomes the reaper.

    Raises:
        RunyardError: the server gives this node nothing: another process has its part, or the run is over.
    """
    ticket = here.ticket
    nodes = NodeCalls(Transport(from_plain(Address, {**ticket.server, "token": ticket.token})))
    incarnation, backoff = os.urandom(16).hex(), Backoff()
    while True:
        try:
            return nodes.join(
                ticket.run_id,
                here.rank,
                attempt=ticket.attempt,
                incarnation=incarnation,
                host=here.host,
                address=here.address,
            )
        except RunyardError as error:
            if not is_later(error) or isinstance(error, NotTrusted):
                raise
            time.sleep(backoff.next_s())
