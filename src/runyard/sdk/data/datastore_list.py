"""The datastores of a workspace, as its server knows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Dict, Optional

from runyard.data.datastores import KIND, Document, list_documents

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.sdk.workspaces.workspace import Workspace


def list_datastores(workspace: Workspace) -> Dict[str, Document]:
    """Return the documents by name."""
    client = workspace._client
    assets = client.assets.list(workspace.name, KIND)
    return list_documents(assets, home=_server_home(client), workspace=workspace.name)


def _server_home(client: Client) -> Optional[Path]:
    """Return the folder of the server, where its datastores lie; None when it is on another machine."""
    import socket  # a private server, the usual one, is on this machine

    if client.address.home:
        return Path(client.address.home)
    info = client.server.info()
    is_here = info.host == socket.gethostname() and os.access(info.home, os.R_OK | os.W_OK | os.X_OK)
    return Path(info.home) if is_here else None
