"""A team server on a loopback address, with TLS, as others would reach it."""

from __future__ import annotations

import socket
from pathlib import Path

from runyard.client.address import Address, parse_url
from runyard.client.client import Client
from runyard.core.config.server_settings import ServerSettings, write_server_settings
from tests.server import private

HOST = "127.0.0.3"  # not the address of the port for browsers of this machine


def free_port(host: str = HOST) -> int:
    with socket.create_server((host, 0)) as listener:
        return int(listener.getsockname()[1])


def start_team(home: Path, **changes: object) -> Client:
    """Have the home's server listen for others and return a client over its unix socket."""
    settings = {"host": HOST, "port": free_port(), **changes}
    write_server_settings(home, ServerSettings(**settings))  # type: ignore[arg-type]  # as the test says
    return private.start(home)


def team_address(client: Client, token: str | None = None) -> Address:
    """Return the address for others, with the certificate that it should have."""
    return parse_url(client.server.info().listens_on[-1], client.address.token if token is None else token)
