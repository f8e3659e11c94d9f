"""Calls about compute targets."""

from __future__ import annotations

from typing import Any, List

from runyard.client.decoding import read_record, read_records
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.compute import ComputeSpec, ComputeTarget
from runyard.core.formats.plain import to_plain

ATTACH_S = 120.0  # the server looks at the engine of an attached target first


class ComputeCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str) -> List[ComputeTarget]:
        return read_records(ComputeTarget, self._transport.request("GET", _path(workspace)))

    def get(self, workspace: str, name: str) -> ComputeTarget:
        """Return a target as it stands now.

        Raises:
            NotFound: the workspace has none of that name.
        """
        return read_record(ComputeTarget, self._transport.request("GET", _path(workspace, name)))

    def create(self, workspace: str, name: str, spec: ComputeSpec) -> ComputeTarget:
        """Make or attach a target, or return the same one.

        Raises:
            Conflict: there is another of that name.
        """
        path = _path(workspace, name)
        answer = self._transport.request("PUT", path, json=to_plain(spec), timeout_s=ATTACH_S)
        return read_record(ComputeTarget, answer)

    def update(self, workspace: str, name: str, **changes: Any) -> ComputeTarget:
        """Change fields of its ComputeSpec; those that are None stay."""
        body = {field: value for field, value in changes.items() if value is not None}
        return read_record(ComputeTarget, self._transport.request("PATCH", _path(workspace, name), json=body))

    def delete(self, workspace: str, name: str) -> None:
        """Delete it; twice is fine.

        Raises:
            Conflict: unfinished runs name it.
        """
        self._transport.request("DELETE", _path(workspace, name))


def _path(workspace: str, name: str = "") -> str:
    path = f"/workspaces/{quote(workspace)}/compute"
    return f"{path}/{quote(name)}" if name else path
