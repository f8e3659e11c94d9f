"""uvicorn's HTTP protocol with limits on what a connection may cost before anybody has looked at its token."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10


class LimitedProtocol(HttpToolsProtocol):
    """One connection. `sweep` is called once a second and closes it when its peer is too slow."""

    head_s = 10.0  # from a connection's opening, or a head's first byte, to the head's end
    body_s = 30.0  # without one more byte of a body
    answer_s = 60.0  # of a peer that does not take its answer
    most_tcp = 512  # anybody on this machine can open these
    most_unix = 4096
    is_public = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        self.is_refused = False
        self._head_since: float | None = time.monotonic()
        self._head_bytes = 0
        self._data_at = time.monotonic()
        self._unread_since: float | None = None
        self.is_unix = transport.get_extra_info("socket").family == socket.AF_UNIX
        super().connection_made(transport)
        most = self.most_unix if self.is_unix else self.most_tcp
        if sum(self._is_like(peer) for peer in self.connections) > most:
            self._refuse(503, b"Too many connections.")

    def _is_like(self, peer: Any) -> bool:
        return (peer.is_unix, peer.is_public) == (self.is_unix, self.is_public)

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


class Lobby:
    """Connections whose TLS handshake is not over: anybody can open them, and each takes a file of ours."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._since: dict[TeamProtocol, float] = {}

    def enter(self, guest: TeamProtocol) -> None:
        """Raises ConnectionRefusedError, upon which asyncio drops the connection."""
        if len(self._since) >= self._most:
            oldest = time.monotonic() - guest.head_s  # a handshake that takes longer is given up
            self._since = {known: since for known, since in self._since.items() if since > oldest}
        if len(self._since) >= self._most:
            raise ConnectionRefusedError("too many connections have not shaken hands yet")
        self._since[guest] = time.monotonic()

    def leave(self, guest: TeamProtocol) -> None:
        self._since.pop(guest, None)


class TeamProtocol(LimitedProtocol):
    """On a team's port, where each node of each run keeps a connection."""

    most_tcp = 4096
    is_public = True

    def __init__(self, *args: Any, lobby: Lobby, **kwargs: Any) -> None:
        self._lobby = lobby
        lobby.enter(self)
        super().__init__(*args, **kwargs)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        self._lobby.leave(self)
        super().connection_made(transport)
