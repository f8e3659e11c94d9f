"""The datastores of a workspace, as its server knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Dict

from runyard.core.errors import NotYetSupported
from runyard.data.datastores import KIND, Document, list_documents

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.sdk.workspace import Workspace


def list_datastores(workspace: Workspace) -> Dict[str, Document]:
    """Return the documents by name."""
    client = workspace._client
    assets = client.assets.list(workspace.name, KIND)
    return list_documents(assets, home=_server_home(client), workspace=workspace.name)


def _server_home(client: Client) -> Path:
    """Return the folder of the server, where its datastores lie.

    Raises:
        NotYetSupported: it is a folder of another machine.
    """
    import socket  # a private server, the usual one, is on this machine

    if client.address.home:
        return Path(client.address.home)
    info = client.server.info()
    if info.host == socket.gethostname():
        return Path(info.home)
    raise NotYetSupported(
        f"The datastores of this server lie in a folder of the machine `{info.host}`.",
        why="They cannot be reached from another machine yet.",
        hint=f"Use them on `{info.host}`, or copy the data there: `scp -r data {info.host}:`.",
    )
