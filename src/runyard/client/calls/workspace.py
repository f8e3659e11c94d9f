"""Calls about workspaces."""

from __future__ import annotations

from typing import List, Mapping, Optional

from runyard.client.decoding import read_record, read_records, repeatable_delete
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.records import Workspace


class WorkspaceCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[Workspace]:
        return read_records(Workspace, self._transport.request("GET", "/workspaces"))

    def get(self, name: str) -> Workspace:
        return read_record(Workspace, self._transport.request("GET", f"/workspaces/{quote(name)}"))

    def delete(self, name: str) -> List[str]:
        """Delete the workspace, its assets, experiments and runs; return the runs' ids.

        Raises:
            Conflict: one of its runs has not ended; nothing was deleted.
        """
        gone = repeatable_delete(
            lambda: self.get(name),
            lambda: self._transport.request("DELETE", f"/workspaces/{quote(name)}", timeout_s=600.0),
            now=False,
        )
        return gone.deleted

    def put(
        self,
        name: str,
        *,
        subscription_id: str = "",
        resource_group: str = "",
        location: str = "",
        tags: Optional[Mapping[str, str]] = None,
    ) -> Workspace:
        """Return the workspace of that name, made from the rest when there is none."""
        body = {
            "subscription_id": subscription_id,
            "resource_group": resource_group,
            "location": location,
            "tags": dict(tags or {}),
        }
        return read_record(Workspace, self._transport.request("PUT", f"/workspaces/{quote(name)}", json=body))
