"""Calls about assets: environments, datastores and what else a workspace keeps by name, in versions."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from runyard.client.decoding import read_record, read_records
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.records import Asset


class AssetCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str, kind: str, *, name: Optional[str] = None) -> List[Asset]:
        """The newest version of each name, by name; with `name` all its versions, oldest first."""
        return read_records(Asset, self._transport.request("GET", _path(workspace, kind), query={"name": name}))

    def get(self, workspace: str, kind: str, name: str, *, version: Optional[int] = None) -> Asset:
        """Return that version, the newest by default.

        Raises:
            NotFound: there is none.
        """
        query = {"version": None if version is None else str(version)}
        return read_record(Asset, self._transport.request("GET", _path(workspace, kind, name), query=query))

    def put(self, workspace: str, kind: str, name: str, document: Mapping[str, Any], *, key: str = "") -> Asset:
        """Return the next version, or the newest one when it has the same key."""
        body = {"document": dict(document), "key": key}
        return read_record(Asset, self._transport.request("POST", _path(workspace, kind, name), json=body))

    def update(self, workspace: str, kind: str, name: str, *, version: int, document: Mapping[str, Any]) -> Asset:
        path = f"{_path(workspace, kind, name)}/{version}"
        return read_record(Asset, self._transport.request("PUT", path, json={"document": dict(document)}))

    def delete(self, workspace: str, kind: str, name: str) -> None:
        """Delete all versions; twice is fine."""
        self._transport.request("DELETE", _path(workspace, kind, name))


def _path(workspace: str, kind: str, name: Optional[str] = None) -> str:
    path = f"/workspaces/{quote(workspace)}/assets/{quote(kind)}"
    return path if name is None else f"{path}/{quote(name)}"
