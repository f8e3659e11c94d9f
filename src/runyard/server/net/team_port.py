"""The port of a team server, which other machines reach: with TLS, unless a proxy in front does TLS."""

from __future__ import annotations

import logging
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runyard.core.config.server_settings import ServerSettings, is_everywhere, is_loopback
from runyard.core.errors import ServerNotStarted
from runyard.core.machine.facts import find_own_address
from runyard.server.access.hosts import TeamNames
from runyard.server.net.binding import listen_on
from runyard.server.net.certificates import ensure_certificate, fingerprint_of, is_self_signed, load_context
from runyard.server.net.gateway_listener import GatewayListener

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TeamPort:
    """`context` None: plain HTTP for a proxy. `fingerprint` "": an authority signed the certificate, or a proxy's."""

    listener: socket.socket
    context: ssl.SSLContext | None
    names: TeamNames
    url: str  # for people and for `runyard login`
    fingerprint: str
    node_address: dict[str, Any] | None  # client.address.Address as a dict; None: other machines cannot come here
    services: GatewayListener  # where the gateway of services listens


def open_team_port(settings: ServerSettings, home: Path) -> TeamPort | None:
    """Listen as the settings say; None for a private server.

    Raises:
        ServerNotStarted: the address is not this machine's or taken, others could not reach it, or the certificate
            cannot be used.
    """
    if not settings.is_team:
        return None
    context, files, fingerprint = _open_tls(settings, home) if settings.has_tls else (None, ("", ""), "")
    listener = _listen(settings)
    host, port = settings.known_names[0]
    url = f"https://{host}" if port == 443 else f"https://{host}:{port}"
    reachable = settings.behind_proxy or not is_loopback(listener.getsockname()[0])
    address = {"kind": "tcp", "host": host, "port": port, "web_url": url, "tls": True, "fingerprint": fingerprint}
    bound = listener.getsockname()[1]
    services = GatewayListener(
        host=settings.host.strip("[]"),
        name=host,
        names=tuple(name for name, _ in settings.known_names),
        port=bound + 1,
        certificate=files[0],
        key=files[1],
        fingerprint=fingerprint or (fingerprint_of(Path(files[0])) if files[0] else ""),
        workers_port=bound + 2 if reachable and files[0] else 0,
    )
    return TeamPort(listener, context, _names(settings), url, fingerprint, address if reachable else None, services)


def _open_tls(settings: ServerSettings, home: Path) -> tuple[ssl.SSLContext, tuple[str, str], str]:
    """Return the context, the files of certificate and key, and the fingerprint when clients have to trust that."""
    if settings.tls_cert:
        certificate, key = Path(settings.tls_cert), Path(settings.tls_key)
    else:
        certificate, key = ensure_certificate(home, [name for name, _ in settings.known_names])
    context = load_context(certificate, key)
    fingerprint = fingerprint_of(certificate) if is_self_signed(certificate) else ""
    return context, (str(certificate), str(key)), fingerprint


def _listen(settings: ServerSettings) -> socket.socket:
    host = settings.host.strip("[]")
    listener = listen_on(host, settings.port)
    found = str(listener.getsockname()[0])
    if is_loopback(found) and not is_loopback(host):
        listener.close()
        own = find_own_address() or "ADDRESS"
        raise ServerNotStarted(
            f"Other machines could not reach a server at `{host}`.",
            why=f"On this machine that name is {found}, which is the machine itself (/etc/hosts says so, mostly).",
            hint=f"runyard server start --host {own} --name {host}",
        )
    return listener


def _names(settings: ServerSettings) -> TeamNames:
    known = [name for pair in settings.known_names for name in (f"{pair[0]}:{pair[1]}", f"{pair[0]}:{settings.port}")]
    bare = [host for host, _ in settings.known_names] if settings.names else []
    local = [f"localhost:{settings.port}"] if is_everywhere(settings.host) or is_loopback(settings.host) else []
    return TeamNames(frozenset(name.lower().encode("ascii") for name in [*known, *bare, *local]))
