"""The whole server in this process, on real sockets: app, guard and protocol as `lifecycle` puts them together."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from runyard.client.address import Address
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.core.config.settings import Settings
from runyard.engine.state.backends import BackendsByKind
from runyard.server.access.activity import Activity
from runyard.server.access.credentials import Credentials
from runyard.server.access.guard import guard
from runyard.server.access.hosts import AnyNames, HostNames
from runyard.server.access.shares import Shares
from runyard.server.access.signin import Signin
from runyard.server.app import create_app
from runyard.server.loop import PrivateServer
from runyard.server.net.binding import UnixSocket, bind_loopback
from runyard.server.net.protocol import CrowdedProtocol
from runyard.server.routes.signin import router
from runyard.server.services import Services, open_services
from runyard.store import open_store
from runyard.store.base import RunStore
from tests.server.raw_http import Door, tcp_door, unix_door

TOKEN = "ryt_" + "5" * 64
BEARER = f"Authorization: Bearer {TOKEN}"


@dataclass
class Guarded:
    app: FastAPI
    services: Services
    signin: Signin
    unix: Door
    tcp: Door
    port: int
    clock: list[float]  # of sign-in codes and cookies: add to it
    leave: Callable[[str], None]  # the server's own: it stops as it would by itself

    def client(self, token: str = TOKEN) -> Client:
        return Client(Transport(Address("unix", path=str(self.unix.place), token=token)))

    def run_token(self, run_id: str, attempt: int) -> str:
        """Make a token of a run's attempt, as the engine does for its supervisors."""
        from runyard.engine.state.spool import hash_token, mint_run_token

        token = mint_run_token()
        self.services.store.add_token(hash_token(token), run_id=run_id, attempt=attempt)
        return token


@contextmanager
def serving(
    protocol: type[CrowdedProtocol] = CrowdedProtocol,
    names: AnyNames | None = None,
    backends: BackendsByKind | None = None,
    shares: Shares | None = None,
    store: Callable[[RunStore], Any] = lambda store: store,
) -> Iterator[Guarded]:
    """`store`: what the server gets in the store's place."""
    folder = Path(tempfile.mkdtemp(prefix="ry-g-"))
    unix = UnixSocket(str(folder / "s"))
    tcp = bind_loopback(0, None)
    port = tcp.getsockname()[1]
    address: dict[str, Any] = {"kind": "unix", "path": str(folder / "s"), "web_url": f"http://127.0.0.1:{port}"}
    settings = Settings(home=folder)
    used = store(open_store("memory:"))
    activity = Activity()
    services = open_services(settings, address, activity=activity, store=used, backends=backends or {})
    clock = [1_800_000_000.0]
    signin = Signin(token=TOKEN, server_id=services.server_id, clock=lambda: clock[0])
    app = create_app(services)
    app.state.signin = signin
    app.include_router(router, prefix="/api/v1")
    credentials = Credentials(token=TOKEN, store=used, signin=signin)
    ready = threading.Event()
    guarded = guard(app, names=names or HostNames(port), credentials=credentials, activity=activity, shares=shares)
    server = PrivateServer(
        guarded,
        unix=unix,
        on_ready=ready.set,
        why_leave=lambda: "",
        on_leave=services.news.close,
        protocol=protocol,
    )
    thread = threading.Thread(target=server.run, args=([*unix.listeners, tcp],))
    thread.start()
    try:
        assert ready.wait(10)
        yield Guarded(app, services, signin, unix_door(str(folder / "s")), tcp_door(port), port, clock, server.leave)
    finally:
        server.leave("the test is over")
        thread.join(10)
        unix.close()
        services.close()
        shutil.rmtree(folder, ignore_errors=True)
