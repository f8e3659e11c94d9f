"""Which server an `azureml://` address means, found as our own client does. A token goes to no other server."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Dict, Iterator, Mapping, Optional

from runyard.client import private_server
from runyard.client.address import Address, parse_url
from runyard.client.client import Client
from runyard.client.login import choose
from runyard.client.transport import Transport
from runyard.core.config.logins import find_login
from runyard.core.config.settings import Settings, read_settings
from runyard.core.errors import InvalidArgument, NotAuthenticated
from runyard.core.formats.plain import from_plain
from runyard.runtime.context import RunContext

Document = Dict[str, Any]  # a JSON object of MLflow's API, or of job.json
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def find_own_job(context: Optional[RunContext], host: str, workspace: str) -> Optional[Document]:
    """Return `job.json` where the address means this run's server and workspace."""
    if context is None:
        return None
    try:
        job = context.read_job()
    except (OSError, ValueError):
        return None
    server = job.get("server") or {}
    authority = str(server.get("web_url") or "").partition("://")[2].rstrip("/")
    known = {authority or "127.0.0.1", f"{server.get('host')}:{server.get('port')}"}
    # A private server may come back with another port; over its socket it is the same one.
    is_own = host in known or (bool(server.get("home")) and _is_loopback(host) and _is_loopback(authority))
    return job if is_own and job.get("workspace", workspace) == workspace else None


def client_of_run(job: Mapping[str, Any]) -> Client:
    """Return a client with the run's token. It starts no server and waits for none: a script must not stand still."""
    return Client(Transport(from_plain(Address, {**job["server"], "token": job["token"]})))


def find_client(host: str) -> Client:
    """Return a client of the server that has this host and port in its address; a private one is started when needed.

    Raises:
        NotAuthenticated: there is no login for it.
        ServerUnreachable, ServerNotStarted: it does not answer.
    """
    settings = read_settings()
    for known in _candidates(settings, host):
        return private_server.connect(known)
    scheme = scheme_of(host)
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return Client(Transport(parse_url(f"{scheme}://{host}", token)))
    raise NotAuthenticated(
        f"There is no login for the server {host} that the address of MLflow names.",
        why="A token goes to no other server than the one it was given for.",
        hint=f"runyard login {scheme}://{host}",
    )


def _candidates(settings: Settings, host: str) -> Iterator[Settings]:
    """Yield the settings of the server with this name: the chosen one, a login, the private server."""
    if settings.url and _authority(settings.url) == host:
        yield choose(settings).settings
    for scheme in ("https", "http"):
        login = find_login(settings.home, f"{scheme}://{host}")
        if login is not None:
            yield replace(settings, url=login.pinned_url, token=login.token)
    if _is_loopback(host):
        yield replace(settings, url=None, token=None)


def _authority(url: str) -> str:
    try:
        return parse_url(url, "x").authority
    except InvalidArgument:
        return ""


def scheme_of(host: str) -> str:
    """Return `http` for a server on this machine, else `https`."""
    return "http" if _is_loopback(host) else "https"


def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
    return name in _LOOPBACK
