"""The gateway's serving process: uvicorn on sockets that the keeper opened, and the sockets of workers and control."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uvicorn.config import Config
from uvicorn.server import Server

from runyard.serving.gateway.app import Gateway
from runyard.serving.gateway.control import MOST_LINE, Control
from runyard.serving.gateway.http import GatewayProtocol
from runyard.serving.gateway.links import WorkerLink
from runyard.serving.gateway.services import ROW_S, ServiceTable
from runyard.serving.gateway.state import ORPHANED, StateFile

logger = logging.getLogger(__name__)

BACKLOG = 2048
_KEEP_ALIVE_S = 75
_FINISH_S = 30
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Sockets:
    """What the keeper opened; they outlive this process."""

    http: socket.socket
    workers: socket.socket
    control: socket.socket
    outside: socket.socket | None = None  # for workers on other machines, with TLS


class GatewayProcess(Server):
    """Serves until it is told to stop; requests under way are answered first."""

    def __init__(
        self,
        folder: Path,
        sockets: Sockets,
        *,
        names: frozenset[str] = frozenset(),
        metrics_token: str = "",
        tls: ssl.SSLContext | None = None,
        workers_tls: ssl.SSLContext | None = None,
        only: str = "",
        is_home_there: Callable[[], bool] = lambda: True,
        on_orphaned: Callable[[], None] = lambda: None,
    ) -> None:
        self.services = ServiceTable(folder, names)
        self._app = Gateway(self.services, only=only, metrics_token=metrics_token)
        super().__init__(_config(self._app))
        self._sockets = sockets
        self._tls = tls
        self._workers_tls = workers_tls
        self._state = StateFile(folder)
        self._is_home_there = is_home_there
        self._on_orphaned = on_orphaned
        self._keeper = os.getppid()
        self.exit_code = 0
        self._ports: dict[int, tuple[str, asyncio.Server]] = {}
        self._control = Control(self.services, self._state, on_ports=self._match_ports, leave=self.leave)
        self._stop: asyncio.Event | None = None

    def leave(self, exit_code: int = 0) -> None:
        """Stop soon; may be called twice."""
        self.exit_code = exit_code
        self.should_exit = True
        if self._stop is not None:
            self._stop.set()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        _raise_file_limit()
        loop = _make_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self.serve([self._sockets.http] if self._tls is None else []))
        finally:
            loop.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for config in self._state.load():
            self.services.put(config)
        # Workers first: they are there again before the first request that waits for them.
        await loop.create_unix_server(lambda: WorkerLink(self.services), sock=self._sockets.workers, backlog=BACKLOG)
        if self._sockets.outside is not None:
            await loop.create_server(
                lambda: WorkerLink(self.services), sock=self._sockets.outside, ssl=self._workers_tls, backlog=BACKLOG
            )
        await asyncio.start_unix_server(self._control.serve, sock=self._sockets.control, limit=MOST_LINE)
        await super().startup(sockets)
        if self._tls is not None:
            self.servers.append(
                await loop.create_server(
                    self._maker(self.config), sock=self._sockets.http, ssl=self._tls, backlog=BACKLOG
                )
            )
        await self._match_ports()
        logger.info("The gateway serves %d services.", len(self.services.by_name))

    async def main_loop(self) -> None:
        assert self._stop is not None
        rows_at = time.monotonic() + ROW_S
        while not self.should_exit:
            await self.on_tick(0)
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                connection.sweep(now)  # type: ignore[union-attr]  # all are GatewayProtocol
            self.services.tick()
            if not self._is_home_there():
                logger.info("Leaving: the folder of this gateway was removed.")
                return
            if os.getppid() != self._keeper and not self.should_exit:
                logger.warning("The keeper of this gateway is gone. This process finishes its requests and becomes it.")
                self._on_orphaned()
                self.leave(ORPHANED)
                return
            if any(one.port_fault for one in self.services.by_name.values()):
                await self._match_ports()
            if now >= rows_at:
                rows_at += ROW_S
                self.services.end_rows(time.time())
            try:
                await asyncio.wait_for(self._stop.wait(), 1.0)
            except asyncio.TimeoutError:
                pass

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for _, server in self._ports.values():
            server.close()
        await super().shutdown(sockets)
        self.services.end_rows(time.time())
        self.services.tick()

    async def _match_ports(self) -> None:
        """Open the listeners that services ask for, and close those that none asks for."""
        wanted = {one.config.port: name for name, one in self.services.by_name.items() if one.config.port}
        for port, (name, server) in list(self._ports.items()):
            if wanted.get(port) != name:
                server.close()
                del self._ports[port]
        for port, name in wanted.items():
            if port not in self._ports:
                service = self.services.by_name[name]
                try:
                    self._ports[port] = (name, await self._listen(port, name))
                    service.port_fault = ""
                except OSError as error:
                    if not service.port_fault:
                        logger.warning("Service %s cannot listen on port %d: %s.", name, port, error)
                    service.port_fault = f"Port {port}: {os.strerror(error.errno) if error.errno else error}."

    async def _listen(self, port: int, name: str) -> asyncio.Server:
        config = _config(Gateway(self.services, only=name))
        config.load()
        make = self._maker(config)
        return await asyncio.get_running_loop().create_server(make, LOOPBACK, port, backlog=BACKLOG)

    def _maker(self, config: Config) -> Any:
        state, app_state = self.server_state, self.lifespan.state
        return lambda: GatewayProtocol(config=config, server_state=state, app_state=app_state)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave on SIGTERM; a terminal's SIGINT is the keeper's to judge."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.leave)
        yield


def _config(app: Any) -> Config:
    return Config(
        app,
        http=GatewayProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_FINISH_S,
    )


def _make_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop where that is installed, else of asyncio."""
    try:
        from uvloop import new_event_loop  # not needed, a little faster
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()  # type: ignore[no-any-return]  # it may not be installed


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 16384 if hard == resource.RLIM_INFINITY else min(16384, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
