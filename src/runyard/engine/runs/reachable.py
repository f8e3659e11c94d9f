"""Under which address the processes of a target reach this server."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from runyard.core.compute import LOCAL
from runyard.core.errors import UserError
from runyard.core.machine.own_address import find_own_address
from runyard.engine.context import Yard


def address_for(yard: Yard, workspace: str, target: str) -> Mapping[str, Any]:
    """Return `client.address.Address` as a dict: on this machine our socket, elsewhere what nodes can reach."""
    found = yard.targets.find(workspace, target)
    if found is None or found.backend == LOCAL:
        return yard.address
    return yard.node_address or yard.address


def require_reachable(yard: Yard, target_kind: str) -> None:
    """Raise UserError unless machines of a cluster can reach this server."""
    if yard.node_address is not None:
        return
    name = find_own_address() or socket.gethostname()
    raise UserError(
        f"Machines of kind `{target_kind}` cannot be used: they cannot reach this server.",
        why="The server listens on a socket and on loopback addresses of its own machine only.",
        hint=f"On the server's machine: `runyard server start --host {name} --port 8787`, with a name or address under "
        "which the nodes know it. Nothing is lost by it: the server of this home starts again, and runs go on.",
    )
