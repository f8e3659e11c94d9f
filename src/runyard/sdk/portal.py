"""Addresses of pages for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.core.errors import RunyardError

if TYPE_CHECKING:
    from runyard.client.client import Client


def portal_url(client: Client, path: str) -> str:
    """Return the address of the page at `path`; opening it signs the browser in.

    A run's own token may not sign anybody in, so inside a run it is the plain address.
    """
    base = (client.address.web_url or "").rstrip("/")
    try:
        return base + client.server.signin_path(path)
    except RunyardError:
        return base + path
