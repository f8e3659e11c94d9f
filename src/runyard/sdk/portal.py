"""Addresses of pages for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.core.errors import RunyardError

if TYPE_CHECKING:
    from runyard.client.client import Client

_PRIVATE = ("http://127.0.0.1:", "http://localhost:")


def portal_url(client: Client, path: str) -> str:
    """Return the address of the page at `path`; of a private server, one that signs the browser in when it is opened.

    Addresses of a team's server are sent to others, so they sign nobody in: `runyard studio` does.
    """
    base = (client.address.web_url or "").rstrip("/")
    return signin_url(client, path) if f"{base}/".startswith(_PRIVATE) else base + path


def signin_url(client: Client, path: str) -> str:
    """Return the address of the page at `path`; who opens it first is signed in as who asks here.

    A run's own token may not sign anybody in, so inside a run it is the plain address.
    """
    base = (client.address.web_url or "").rstrip("/")
    try:
        return base + client.server.signin_path(path)
    except RunyardError:
        return base + path


def experiment_path(workspace: str, name: str) -> str:
    from urllib.parse import urlencode  # most programs never ask for an address

    query = {"experiment": name} if workspace == "default" else {"workspace": workspace, "experiment": name}
    return f"/runs?{urlencode(query)}"
