"""From an empty process to a serving one and back: lock, sockets, parts, app, stop."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runyard import __version__
from runyard.core.folders import database_file, token_file
from runyard.core.runtime_folder import runtime_folder, socket_path
from runyard.core.settings import Settings
from runyard.server.binding import LOOPBACK, UnixSocket, bind_loopback
from runyard.server.idle import Activity, should_leave
from runyard.server.locks import Holder, prepare_home, this_process, wait_for_lock
from runyard.server.token_file import ensure_token

if TYPE_CHECKING:
    from runyard.server.loop import PrivateServer
    from runyard.server.services import Services

logger = logging.getLogger(__name__)

# A server that is leaving finishes its requests first.
_LOCK_PATIENCE_S = 15.0
_PORT = "port"


def serve(settings: Settings, *, on_ready: Callable[[], None]) -> int:
    """Serve `settings.home` until told to stop or idle for long enough. Return the exit code.

    A home that a live server already has is left to it.
    """
    prepare_home(settings.home)
    lock = wait_for_lock(settings.home, patience_s=_LOCK_PATIENCE_S, answers=_answers)
    if lock is None:
        on_ready()
        return 0
    try:
        token = ensure_token(token_file(settings.home))
        unix = UnixSocket(socket_path(runtime_folder(settings.home)))
        try:
            lock.name(this_process(unix.path))
            _serve_on(unix, settings, token, on_ready)
        finally:
            unix.close()
    finally:
        lock.release()
    return 0


def _serve_on(unix: UnixSocket, settings: Settings, token: str, on_ready: Callable[[], None]) -> None:
    # These take most of a start, and a second server has left before.
    from runyard.server.app import create_app
    from runyard.server.auth import Credentials, guard
    from runyard.server.hosts import Names
    from runyard.server.loop import PrivateServer
    from runyard.server.services import open_services
    from runyard.server.signin import Signin
    from runyard.server.signin_route import router
    from runyard.store import open_store

    store = open_store(database_file(settings.home))
    tcp = bind_loopback(settings.port, _kept_port(store))
    port = tcp.getsockname()[1]
    store.set_value(_PORT, str(port))
    activity = Activity()
    server: PrivateServer
    services = open_services(
        settings,
        _address(settings, unix.path, port),
        activity=activity,
        stop=lambda: server.leave("asked to"),
        store=store,
    )
    try:
        app = create_app(services)
        app.state.signin = Signin(token=token, server_id=services.server_id)
        app.include_router(router, prefix="/api/v1")
        credentials = Credentials(token=token, store=store, signin=app.state.signin)
        guarded = guard(app, names=Names(port), credentials=credentials, activity=activity)
        server = PrivateServer(guarded, unix=unix, on_ready=on_ready, is_idle=lambda: _is_idle(services))
        logger.info("Runyard %s serves %s on %s and port %d.", __version__, settings.home, unix.path, port)
        server.run([*unix.listeners, tcp])
        logger.info("Leaving: %s. Live runs go on.", server.reason)
    finally:
        services.close()
        tcp.close()


def _is_idle(services: Services) -> bool:
    return should_leave(
        services.activity, idle_stop_s=services.settings.idle_stop_s, engine_is_idle=services.engine.is_idle
    )


def _kept_port(store: Any) -> int | None:
    found = store.find_value(_PORT)
    return int(found) if found is not None and found.isdigit() else None


def _address(settings: Settings, path: str, port: int) -> dict[str, Any]:
    """Return `client.address.Address` of this server as a dict, without a token: each run gets its own."""
    return {
        "kind": "unix",
        "path": path,
        "host": None,
        "port": None,
        "token": "",
        "home": str(settings.home),
        "web_url": f"http://{LOOPBACK}:{port}",
    }


def _answers(holder: Holder) -> bool:
    """Whether the server that has the home answers on its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(2.0)
        try:
            sock.connect(holder.socket)
            sock.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: runyard\r\nConnection: close\r\n\r\n")
            return sock.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False
