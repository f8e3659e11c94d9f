"""Datastores of a workspace by name: two folders that every workspace has, and those that were registered.

`ServedStorage` is the storage `served`: a folder of the server's machine, reached from another one through the server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence

from runyard.core.config.paths import datastores_folder
from runyard.core.errors import NotFound
from runyard.core.plugins import load_plugin
from runyard.core.records import Asset
from runyard.data.base import Count, Remote, Storage, StoredFile, count_nothing

KIND = "datastore"  # of the assets that hold a datastore's document
DEFAULT = "workspaceblobstore"
BUILT_IN = (DEFAULT, "workspacefilestore")
SERVED = "served"
OBJECTS = ("s3", "azure", "gcs")  # data/object_storage.py
STORAGES = {"folder": "runyard.data.folder:FolderStorage"}


class ServedStorage(Storage):
    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def iter_files(self, path: str = "") -> Iterator[StoredFile]:
        for name, size in self._remote.list(path):
            yield StoredFile(name, size)

    def find_file(self, name: str) -> Optional[StoredFile]:
        return next((file for file in self.iter_files(name) if file.name == name), None)

    def put_file(self, source: str, name: str, count: Count = count_nothing) -> None:
        self._remote.put(source, name, count)

    def fetch_file(self, name: str, target: str, count: Count = count_nothing) -> None:
        self._remote.fetch(name, target, count)

    def find_local(self, path: str) -> Optional[str]:
        return None


Document = Dict[str, Any]  # {"type": name of its storage, …; "default_at": when it was made the workspace's default}


def folder_document(path: str) -> Document:
    return {"type": "folder", "path": path}


def list_documents(assets: Sequence[Asset], *, home: Optional[Path], workspace: str) -> Dict[str, Document]:
    """Return all datastores of a workspace by name. `home` is the server's; None: it is on another machine."""
    found = {name: _built_in(name, home, workspace) for name in BUILT_IN}
    for asset in assets:
        found[asset.name] = {**found.get(asset.name, {}), **asset.document}
    return found


def _built_in(name: str, home: Optional[Path], workspace: str) -> Document:
    if home is None:
        return {"type": SERVED}
    return {**folder_document(str(datastores_folder(home, workspace) / name)), "make": True}


def without_default(document: Document) -> Document:
    """Return where the datastore leads, without whether it is the workspace's default."""
    return {key: value for key, value in document.items() if key != "default_at"}


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


def _not_here() -> Remote:
    raise NotFound("The datastore's files lie on the server's machine, and nothing reaches them from here.")


def _no_secrets(name: str) -> str:
    raise NotFound(f"The datastore's keys are the secret `{name}`, which nothing reaches from here.")


def open_storage(
    document: Document, remote: Callable[[], Remote] = _not_here, read_secret: Callable[[str], str] = _no_secrets
) -> Storage:
    """Open a datastore.

    Args:
        remote: gives its files where they lie on the server's machine.
        read_secret: gives the value of the secret that holds its keys.

    Raises:
        NotFound: there is no storage of that type.
    """
    kind = str(document.get("type", ""))
    if kind == SERVED:
        return ServedStorage(remote())
    if kind in OBJECTS:
        from runyard.data.object_storage import ObjectStorage  # few workspaces have one

        return ObjectStorage(document, read_secret)
    storage: Storage = load_plugin("data", kind, STORAGES)(document)
    return storage
