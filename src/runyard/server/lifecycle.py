"""Start and stop of the server process: lock, sockets, parts, app."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runyard import __version__
from runyard.core.config.paths import database_file, token_file
from runyard.core.config.runtime_folder import runtime_folder, socket_path
from runyard.core.config.server_settings import read_server_settings
from runyard.core.config.settings import Settings
from runyard.core.names import make_uuid
from runyard.server.access.activity import Activity, should_leave
from runyard.server.access.token_file import ensure_token
from runyard.server.net.binding import LOOPBACK, UnixSocket, bind_loopback
from runyard.server.net.home_lock import Holder, HomeLock, prepare_home, this_process, wait_for_lock

if TYPE_CHECKING:
    from runyard.server.loop import PrivateServer
    from runyard.server.net.team_port import TeamPort
    from runyard.server.services import Services

logger = logging.getLogger(__name__)

# A server that is leaving finishes its requests first.
_LOCK_PATIENCE_S = 15.0
_PORT = "port"
_EPOCH = "session_epoch"


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
            _serve_on(unix, settings, token, on_ready, lock)
        finally:
            unix.close()
    finally:
        lock.release()
    return 0


def _serve_on(unix: UnixSocket, settings: Settings, token: str, on_ready: Callable[[], None], lock: HomeLock) -> None:
    # These take most of a start, and a second server has left before.
    from runyard.server.access.credentials import Credentials
    from runyard.server.access.guard import guard
    from runyard.server.access.hosts import HostNames
    from runyard.server.access.signin import Signin
    from runyard.server.app import create_app
    from runyard.server.loop import Listening, PrivateServer
    from runyard.server.net.team_port import open_team_port
    from runyard.server.routes.signin import router
    from runyard.server.services import open_database, open_services
    from runyard.server.storage.belonging import find_content_folder
    from runyard.server.storage.disk_watch import DiskWatch, with_notices

    ours = read_server_settings(settings.home)
    team = open_team_port(ours, settings.home)
    if team is not None:
        settings = replace(settings, idle_stop_s=0.0)  # others count on it
    if ours.amlcompute_cluster:
        settings = replace(settings, amlcompute_cluster=ours.amlcompute_cluster)
    place = ours.database or database_file(settings.home)
    store = open_database(settings.home, place)
    try:
        store.claim()
        find_content_folder(settings.home, store, place)  # before anything is written
    except BaseException:
        store.close()
        raise
    kept = _kept_port(store)
    tcp = bind_loopback(settings.port, kept)
    port = tcp.getsockname()[1]
    store.set_value(_PORT, str(port))
    epoch = _session_epoch(store, has_moved=kept not in (None, port))
    activity = Activity()
    server: PrivateServer
    services = open_services(
        settings,
        _address(settings, unix.path, team.url if team else f"http://{LOOPBACK}:{port}"),
        node_address=team.node_address if team else None,
        server_settings=ours,
        listens_on=_addresses(unix.path, port, team),
        activity=activity,
        stop=lambda: server.leave("asked to"),
        store=store,
        gateway_address=team.services if team is not None else None,
    )
    try:
        app = create_app(services)
        app.state.signin = Signin(token=token, server_id=services.server_id, epoch=epoch)
        app.include_router(router, prefix="/api/v1")
        credentials = Credentials(token=token, store=store, signin=app.state.signin)
        noticed = with_notices(app, DiskWatch(settings.home, make_room=services.collecting.drop_copies).notice)
        guarded = guard(noticed, names=HostNames(port), credentials=credentials, activity=activity)
        others = None
        if team is not None:
            outside = guard(noticed, names=team.names, credentials=credentials, activity=activity)
            others = Listening(team.listener, team.context, outside)
        server = PrivateServer(
            guarded,
            unix=unix,
            on_ready=on_ready,
            why_leave=lambda: _why_leave(services),
            is_home_there=lock.is_in_place,
            on_leave=services.news.close,
            team=others,
        )
        logger.info("Runyard %s serves %s on %s.", __version__, settings.home, ", ".join(services.listens_on))
        server.run([*unix.listeners, tcp])
        logger.info("Leaving: %s. Live runs go on.", server.reason)
    finally:
        services.close()
        tcp.close()


def _why_leave(services: Services) -> str:
    """Return the reason to leave now, "" when there is none; asked once a second."""
    services.store.find_fault()  # logs it, and closes the store to readers too
    is_idle = should_leave(
        services.activity,
        idle_stop_s=services.settings.idle_stop_s,
        engine_is_idle=lambda: services.engine.is_idle() and not services.deployer.is_serving(),
    )
    return "nothing to do" if is_idle else ""


def _kept_port(store: Any) -> int | None:
    found = store.find_value(_PORT)
    return int(found) if found is not None and found.isdigit() else None


def _session_epoch(store: Any, *, has_moved: bool) -> str:
    """Return what browsers' sessions are bound to beside the token; another one ends them all.

    A program that took our port while we were away may have shown a page there, and got both halves of sessions from
    browsers that opened it. The browsers' own pages cannot use them at another port anyway.
    """
    if has_moved:
        store.set_value(_EPOCH, make_uuid())
    return store.find_value(_EPOCH) or ""


def _addresses(path: str, port: int, team: TeamPort | None) -> tuple[str, ...]:
    """Return where this server answers; a certificate that made itself comes with what to trust it by."""
    own = (f"unix://{path}", f"http://{LOOPBACK}:{port}")
    if team is None:
        return own
    return (*own, f"{team.url}#sha256={team.fingerprint}" if team.fingerprint else team.url)


def _address(settings: Settings, path: str, web_url: str) -> dict[str, Any]:
    """Return `client.address.Address` of this server as a dict, without a token: each run gets its own."""
    return {
        "kind": "unix",
        "path": path,
        "host": None,
        "port": None,
        "token": "",
        "home": str(settings.home),
        "web_url": web_url,
    }


def _answers(holder: Holder) -> bool:
    """Whether the server that has the home answers on its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(2.0)
        try:
            sock.connect(holder.socket)
            sock.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: runyard\r\nConnection: close\r\n\r\n")
            return sock.recv(64).startswith(b"HTTP/1.1 ")  # 503: it is there, its database is not
        except OSError:
            return False
