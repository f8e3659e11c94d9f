"""Addresses of pages for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Optional, TextIO

from runyard.core.errors import RunyardError

if TYPE_CHECKING:
    from runyard.client.client import Client

_PRIVATE = ("http://127.0.0.1:", "http://localhost:")


def portal_url(client: Client, path: str, *, out: Optional[TextIO] = None) -> str:
    """Return the address of the page at `path`; of a private server, one that signs the browser in when it is opened.

    That is for somebody at a terminal (`out`, by default stdout) or in a notebook. What goes to a file or to the log of
    a build is read by others, and addresses of a team's server are sent to others: those sign nobody in, `runyard
    studio` does.
    """
    page = page_url(client, path)
    is_ours = page.startswith(_PRIVATE) and _has_reader(sys.stdout if out is None else out)
    return signin_url(client, path) if is_ours else page


def page_url(client: Client, path: str) -> str:
    """Return the plain address of the page at `path`, which signs nobody in."""
    return (client.address.web_url or "").rstrip("/") + path


def _has_reader(out: Optional[TextIO]) -> bool:
    if "ipykernel" in sys.modules:
        return True
    try:
        return out is not None and out.isatty()
    except (ValueError, AttributeError):  # closed, or only something to write to
        return False


def signin_url(client: Client, path: str) -> str:
    """Return the address of the page at `path`; who opens it first is signed in as who asks here.

    A run's own token may not sign anybody in, so inside a run it is the plain address.
    """
    try:
        return page_url(client, client.server.signin_path(path))
    except RunyardError:
        return page_url(client, path)


def experiment_path(workspace: str, name: str) -> str:
    from urllib.parse import urlencode  # most programs never ask for an address

    query = {"experiment": name} if workspace == "default" else {"workspace": workspace, "experiment": name}
    return f"/runs?{urlencode(query)}"
