"""uvicorn's HTTP protocol with limits on what a connection may cost before its token is checked."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Hashable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from runyard.server.access.crowd import Crowd, Standing, peer_of

MAX_HEAD_BYTES = 64 << 10


class LimitedProtocol(HttpToolsProtocol):
    """One connection. `sweep` is called once a second and closes it when its peer is too slow."""

    head_s = 10.0  # from a connection's opening, or a head's first byte, to the head's end
    body_s = 30.0  # without one more byte of a body
    answer_s = 60.0  # of a peer that does not take its answer
    most_tcp = 512  # any user of this machine can open these
    most_unix = 4096
    is_public = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        self.is_refused = False
        self._head_since: float | None = time.monotonic()
        self._head_bytes = 0
        self._data_at = time.monotonic()
        self._unread_since: float | None = None
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

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        self._data_at = time.monotonic()
        super().data_received(data)
        if self._head_since is None or self.is_refused:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, b"The request's head is too large.")

    def on_message_begin(self) -> None:
        self._find_principal()  # the request before is forgotten now
        self._head_since = self._data_at
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_since = None
        if self.is_refused:
            return
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            self._refuse(431, b"The request's head is too large.")
        elif not self.url.startswith(b"/"):
            self._refuse(400, b"The request's target must be a path.")
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.is_refused:
            super().on_message_complete()

    def pause_writing(self) -> None:
        self._unread_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def sweep(self, now: float) -> None:
        """Close the connection when its peer has been silent for too long in the middle of something."""
        if self.transport.is_closing():
            return
        if self._unread_since is not None and now - self._unread_since > self.answer_s:
            self.transport.abort()
        elif self._head_since is not None and now - self._head_since > self.head_s:
            self._refuse(408, b"The request's head took too long.")
        elif self._waits_for_body() and now - self._data_at > self.body_s:
            self.transport.abort()

    def _waits_for_body(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and cycle.more_body and not cycle.response_complete and not self.flow.read_paused

    def _refuse(self, status: int, text: bytes) -> None:
        self.is_refused = True
        head = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(text)
        self.transport.write(STATUS_LINE[status] + head + text)
        self.transport.close()


class TeamProtocol(LimitedProtocol):
    """On a team's port, where each node of each run keeps a connection."""

    most_tcp = 4096
    is_public = True
