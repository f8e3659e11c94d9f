"""Connections that workers and hosts of replicas opened: frames out, frames in."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import TYPE_CHECKING

from runyard.core.errors import ProtocolError
from runyard.serving.protocol import (
    ANSWERS,
    HELLO,
    NOTE,
    PING,
    PONG,
    READY,
    STOP,
    Bytes,
    FrameBuffer,
    Json,
    WireFrame,
    WireRequest,
    iter_answers,
    pack_note,
    pack_requests,
    read_note,
)

if TYPE_CHECKING:
    from runyard.serving.gateway.revisions import Revision, Waiting
    from runyard.serving.gateway.services import ServiceTable

logger = logging.getLogger(__name__)

_HELLO_S = 10.0
_PING_EVERY_S = 10.0
_PONG_S = 20.0


class WorkerLink(asyncio.BufferedProtocol):
    """One connection: of a worker, which answers, or of a host, which replaces workers."""

    def __init__(self, services: ServiceTable) -> None:
        self._services = services
        self._buffer = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self.role = ""
        self.replica = ""
        self.pid = 0
        self.number = 0
        self.revision: Revision | None = None
        self.slots = 0  # frames at once; 0: not ready
        self.frames = 0  # under way
        self.in_flight: dict[int, Waiting] = {}
        self.busy_since = 0.0
        self.is_draining = False
        self.is_stuck = False
        self.rss_kb = 0
        self.opened = self.heard = time.monotonic()
        self._pinged = 0.0

    @property
    def is_free(self) -> bool:
        return self.frames < self.slots and not self.is_draining and not self.is_stuck

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._services.links.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = time.monotonic()
        try:
            for frame in self._buffer.buffer_updated(nbytes):
                self._take(frame)
        except ProtocolError as error:
            logger.warning("A worker sent what is no frame (%s). Its connection is closed.", error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._services.links.discard(self)
        has_read = not (self._is_unix() and isinstance(exc, ConnectionError))
        self._transport = None
        if self.revision is not None:
            self.revision.on_lost(self, has_read=has_read)

    def _is_unix(self) -> bool:
        """Whether the kernel tells a worker that died with unread bytes (ECONNRESET, EPIPE) from one that read all."""
        found = self._transport.get_extra_info("socket") if self._transport is not None else None
        return found is not None and found.family == socket.AF_UNIX

    def send_requests(self, batch: list[Waiting]) -> None:
        """Give the worker one frame of work."""
        if not self.in_flight:
            self.busy_since = time.perf_counter()
        self.frames += 1
        for waiting in batch:
            self.in_flight[waiting.id] = waiting
        self._write(pack_requests([WireRequest(one.id, one.head, one.body) for one in batch]))

    def note(self, **plain: object) -> None:
        self._write([pack_note(NOTE, plain)])

    def stop(self) -> None:
        """Let the worker end; whatever it was sent is answered by now."""
        self.is_draining = True
        self._write([pack_note(STOP)])

    def drain(self) -> None:
        """Send no more work, and stop the worker after its last answer."""
        self.is_draining = True
        if not self.in_flight:
            self.stop()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def tick(self, now: float) -> None:
        """Called once a second: silent peers are asked, and dropped when they do not answer."""
        if not self.role:
            if now - self.opened > _HELLO_S:
                self.abort()
        elif self._pinged and now - self._pinged > _PONG_S and self.heard < self._pinged:
            logger.warning("Worker %s of replica %s does not answer. Its connection is closed.", self.pid, self.replica)
            self.abort()
        elif not self.in_flight and now - max(self.heard, self._pinged) > _PING_EVERY_S:
            self._pinged = now
            self._write([pack_note(PING)])

    def _write(self, pieces: list[Bytes] | list[bytes]) -> None:
        if self._transport is not None:
            for piece in pieces:
                self._transport.write(piece)

    def _take(self, frame: WireFrame) -> None:
        if frame.kind == ANSWERS and self.revision is not None:
            self.revision.on_answers(self, iter_answers(frame))
        elif frame.kind == HELLO and not self.role:
            self._greet(read_note(frame))
        elif not self.role:
            raise ProtocolError("It did not say who it is.")
        elif frame.kind == READY and self.role == "worker" and self.revision is not None:
            self.revision.on_ready(self, read_note(frame))
        elif frame.kind == PONG:
            self.rss_kb = int(read_note(frame).get("rss_kb", 0))
            self._pinged = 0.0
        elif frame.kind == PING:
            self._write([pack_note(PONG)])
        elif frame.kind == NOTE:
            self._services.on_note(self, read_note(frame))

    def _greet(self, hello: Json) -> None:
        self.role = "host" if hello.get("role") == "host" else "worker"
        self.replica = str(hello.get("replica", ""))[:200]
        self.pid, self.number = int(hello.get("pid", 0)), int(hello.get("number", 0))
        revision = self._services.find_revision(
            str(hello.get("service", "")), hello.get("revision"), str(hello.get("token", ""))
        )
        if revision is None:  # deleted, or replaced, while it was away
            self.stop()
            return
        self.revision = revision
        revision.links.add(self)
