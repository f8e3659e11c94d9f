"""uvicorn's HTTP protocol with limits on what a connection may cost before its token is checked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Hashable

from runyard.server.access.crowd import Crowd, Standing, peer_of
from runyard.serving.gateway.http import LimitedProtocol


class CrowdedProtocol(LimitedProtocol):
    """A connection of a door whose crowd is limited: when it is full, the least known peer has to leave."""

    most_tcp = 512  # any user of this machine can open these
    most_unix = 4096
    is_public = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        self._principal: Hashable = None  # of the last request that was let in
        self.is_unix = transport.get_extra_info("socket").family == socket.AF_UNIX
        super().connection_made(transport)
        self.peer = "this machine" if self.is_unix or self.client is None else peer_of(self.client[0])
        self._crowd = self._find_crowd()
        if not self._crowd.enter(self):
            self._refuse(503, b"Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.leave(self)
        super().connection_lost(exc)

    def _find_crowd(self) -> Crowd:
        """Return the crowd of this door, which all its connections share through uvicorn's state."""
        crowds: dict[str, Crowd] = vars(self.server_state).setdefault("crowds", {})
        door = "The unix socket" if self.is_unix else "The team's port" if self.is_public else "The loopback port"
        found = crowds.get(door)
        if found is None:
            found = crowds[door] = Crowd(self.most_unix if self.is_unix else self.most_tcp, door)
        return found

    @property
    def standing(self) -> Standing:
        if self._find_principal() is None:
            return Standing.UNKNOWN
        is_busy = self.cycle is not None and not self.cycle.response_complete
        return Standing.BUSY if is_busy else Standing.IDLE

    @property
    def holder(self) -> Hashable:
        return self._find_principal() or self.peer

    def drop(self) -> None:
        self.is_refused = True
        self.transport.abort()

    def _find_principal(self) -> Hashable:
        """Return the principal that the guard let in over this connection."""
        if self.scope is not None:
            self._principal = self.scope["state"].get("principal") or self._principal
        return self._principal

    def on_message_begin(self) -> None:
        self._find_principal()  # the request before is forgotten now
        super().on_message_begin()


class TeamProtocol(CrowdedProtocol):
    """On a team's port, where each node of each run keeps a connection."""

    most_tcp = 4096
    is_public = True
