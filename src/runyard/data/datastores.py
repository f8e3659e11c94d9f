"""Datastores of a workspace by name: two folders that every workspace has, and those that were registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from runyard.core.errors import NotFound
from runyard.core.folders import datastores_folder
from runyard.core.plugins import load_plugin
from runyard.core.records import Asset
from runyard.data.base import Storage

KIND = "datastore"  # of the assets that hold a datastore's document
DEFAULT = "workspaceblobstore"
BUILT_IN = (DEFAULT, "workspacefilestore")
STORAGES = {"folder": "runyard.data.folder:FolderStorage"}

Document = Dict[str, Any]  # {"type": name of its storage, …; "default_at": when it was made the workspace's default}


def folder_document(path: str) -> Document:
    return {"type": "folder", "path": path}


def list_documents(assets: Sequence[Asset], *, home: Path, workspace: str) -> Dict[str, Document]:
    """Return all datastores of a workspace by name. `home` is the server's."""
    folder = datastores_folder(home, workspace)
    found = {name: {**folder_document(str(folder / name)), "make": True} for name in BUILT_IN}
    for asset in assets:
        found[asset.name] = {**found.get(asset.name, {}), **asset.document}
    return found


def get_document(documents: Mapping[str, Document], name: str) -> Document:
    """Raises NotFound."""
    if name in documents:
        return documents[name]
    raise NotFound(
        f"There is no datastore `{name}` in this workspace.",
        why=f"Known: {', '.join(sorted(documents))}.",
        hint="ws.get_default_datastore() is always there; Datastore.register_folder(ws, name, path) adds a folder.",
    )


def default_name(documents: Mapping[str, Document]) -> str:
    """Return the name of the datastore that was last made the default."""
    chosen = [(str(document["default_at"]), name) for name, document in documents.items() if document.get("default_at")]
    return max(chosen)[1] if chosen else DEFAULT


def open_storage(document: Document) -> Storage:
    """Raises NotFound: nobody provides storages of that type."""
    storage: Storage = load_plugin("data", str(document.get("type", "")), STORAGES)(document)
    return storage
