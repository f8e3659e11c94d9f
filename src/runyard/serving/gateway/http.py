"""uvicorn's HTTP protocol with limits on what a connection may cost: the gateway's, and the base of the server's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10
MAX_CONNECTIONS = 8192
ON_GONE = "runyard.on_gone"  # of a scope: called when the client is gone before its answer


class LimitedProtocol(HttpToolsProtocol):
    """One connection. `sweep` is called once a second and closes it when its peer is too slow."""

    head_s = 10.0  # from a connection's opening, or a head's first byte, to the head's end
    body_s = 30.0  # without one more byte of a body
    answer_s = 60.0  # of a peer that does not take its answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        self.is_refused = False
        self._head_since: float | None = time.monotonic()
        self._head_bytes = 0
        self._data_at = time.monotonic()
        self._unread_since: float | None = None
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        self._data_at = time.monotonic()
        super().data_received(data)
        if self._head_since is not None and not self.is_refused:
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
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
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


class GatewayProtocol(LimitedProtocol):
    """A connection of a service's client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(503, b"Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        scope: Any = self.scope  # None before the first request
        on_gone = scope.get(ON_GONE) if scope is not None else None
        if on_gone is not None:
            on_gone()
        super().connection_lost(exc)
