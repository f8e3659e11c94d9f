"""TLS handshakes that are not over: any peer can begin one, and each takes a file descriptor."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Callable
from typing import Any

from runyard.server.access.crowd import Crowd, Standing, peer_of

logger = logging.getLogger(__name__)

MOST = 512
_GOODBYE_S = 0.5  # a client with an idle connection does not notice that we leave


class Handshake(asyncio.Protocol):
    """One connection until its handshake is over; then `make()` takes it.

    asyncio's own TLS servers keep such connections where they cannot be reached or counted.
    """

    standing = Standing.UNKNOWN

    def __init__(
        self, context: ssl.SSLContext, lobby: Crowd, make: Callable[[], asyncio.Protocol], *, patience_s: float
    ) -> None:
        self._context = context
        self._lobby = lobby
        self._make = make
        self._patience_s = patience_s
        self._early: list[bytes] = []  # came with the handshake's last message
        self._is_shaking = False
        self._is_lost = False
        self._task: asyncio.Task[None] | None = None
        self.peer = ""

    @property
    def holder(self) -> str:
        return self.peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._raw = transport
        self.peer = peer_of(str((transport.get_extra_info("peername") or ("",))[0]))
        if self._lobby.enter(self):
            self._task = asyncio.get_running_loop().create_task(self._shake_hands())
        else:
            self.drop()

    def data_received(self, data: bytes) -> None:
        if self._is_shaking:
            self._early.append(data)
        else:
            self.drop()  # nothing is read before TLS is there

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._lobby.leave(self)

    def drop(self) -> None:
        self._is_lost = True
        self._raw.abort()

    async def _shake_hands(self) -> None:
        more: dict[str, Any] = {"ssl_shutdown_timeout": _GOODBYE_S} if sys.version_info >= (3, 11) else {}
        self._is_shaking = True
        try:
            transport = await asyncio.get_running_loop().start_tls(
                self._raw,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._patience_s,
                **more,
            )
        except (OSError, asyncio.TimeoutError) as error:
            logger.debug("A TLS handshake of %s failed: %s", self.peer, error)
            self.drop()
            return
        finally:
            self._lobby.leave(self)
        if transport is None or self._is_lost:
            self._raw.abort()
            return
        protocol = self._make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._early:
            protocol.data_received(data)
