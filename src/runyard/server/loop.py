"""The event loop: uvicorn on sockets that we opened, with our protocol, our signals and our reasons to stop."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.server import Server

from runyard.server.access.crowd import Crowd
from runyard.server.net import lobby
from runyard.server.net.binding import BACKLOG, UnixSocket
from runyard.server.net.lobby import Handshake
from runyard.server.net.protocol import CrowdedProtocol, TeamProtocol

logger = logging.getLogger(__name__)

_KEEP_ALIVE_S = 75  # longer than any pause of a supervisor between two requests
_FINISH_S = 5
_TICK_S = 1.0


@dataclass(frozen=True)
class Listening:
    """One more socket, with an app of its own."""

    listener: socket.socket
    context: ssl.SSLContext | None
    app: Any


class PrivateServer(Server):
    """Serves until `leave` is called, a signal comes, `why_leave` gives a reason, or its home is gone.

    Requests under way are finished first; `on_leave` ends those that would go on for ever.
    """

    def __init__(
        self,
        app: Any,
        *,
        unix: UnixSocket,
        on_ready: Callable[[], None],
        why_leave: Callable[[], str],
        is_home_there: Callable[[], bool] = lambda: True,
        on_leave: Callable[[], None] = lambda: None,
        protocol: type[CrowdedProtocol] = CrowdedProtocol,
        team: Listening | None = None,
    ) -> None:
        super().__init__(_config(app, protocol))
        self.reason = ""
        self._team = team
        self._lobby = Crowd(lobby.MOST, "The lobby of the team's port")
        self._unix = unix
        self._protocol = protocol
        self._on_ready = on_ready
        self._why_leave = why_leave
        self._is_home_there = is_home_there
        self._on_leave = on_leave
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        _raise_file_limit()
        asyncio.run(self.serve(sockets))

    def leave(self, reason: str) -> None:
        """Stop soon; may be called from any thread, and twice."""
        self.reason = self.reason or reason
        self.should_exit = True
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await super().startup(sockets)
        await self._listen_for_team()
        await self.on_tick(0)
        self._on_ready()

    async def main_loop(self) -> None:
        """Tick once a second rather than uvicorn's ten times: an idle server should cost nothing."""
        assert self._stop is not None
        while not self.should_exit:
            await self.on_tick(0)
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                connection.sweep(now)  # type: ignore[union-attr]  # all are CrowdedProtocol
            if not self._is_home_there():  # before the socket is made again: it may be the next server's
                self.leave("the home was removed, moved or replaced")
                break
            await self._listen_again()
            reason = await asyncio.to_thread(self._why_leave)
            if reason:
                self.leave(reason)
            try:
                await asyncio.wait_for(self._stop.wait(), _TICK_S)
            except asyncio.TimeoutError:
                pass
        self._lobby.drop_all()
        self._on_leave()

    async def _listen_for_team(self) -> None:
        """uvicorn itself would speak TLS on all of its sockets or on none."""
        if self._team is None:
            return
        config, context = _config(self._team.app, TeamProtocol), self._team.context
        state, app_state = self.server_state, self.lifespan.state

        def make_protocol() -> asyncio.Protocol:
            return TeamProtocol(config=config, server_state=state, app_state=app_state)

        def make_handshake() -> asyncio.Protocol:
            assert context is not None
            return Handshake(context, self._lobby, make_protocol, patience_s=TeamProtocol.head_s)

        make = make_protocol if context is None else make_handshake
        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_server(make, sock=self._team.listener, backlog=BACKLOG))

    async def _listen_again(self) -> None:
        listener = self._unix.find_again()
        if listener is not None:
            loop = asyncio.get_running_loop()
            self.servers.append(await loop.create_server(self._make_protocol, sock=listener))

    def _make_protocol(self) -> CrowdedProtocol:
        return self._protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave on SIGTERM and SIGINT; uvicorn's own would raise the signal again and skip our clean-up."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread hears of signals
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.leave, f"signal {number.name}")
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _config(app: Any, protocol: type[CrowdedProtocol]) -> Config:
    return Config(
        app,
        http=protocol,
        ws="none",
        loop="asyncio",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_FINISH_S,
    )


def _raise_file_limit() -> None:
    """Each of a thousand runs keeps a connection; the usual soft limit is 1024 files in all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
