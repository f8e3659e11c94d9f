"""Calls about experiments."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from runyard.client.decoding import (
    Deletion,
    read_answer,
    read_record,
    read_records,
    repeatable_delete,
    restored_runs,
)
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.records import Experiment


class ExperimentCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str, *, view: str = "ActiveOnly", name: Optional[str] = None) -> List[Experiment]:
        """`view` is ActiveOnly, ArchivedOnly, All (both), or DeletedOnly: those that can be restored."""
        path = f"/workspaces/{quote(workspace)}/experiments"
        return read_records(Experiment, self._transport.request("GET", path, query={"view": view, "name": name}))

    def get(self, workspace: str, name: str) -> Experiment:
        return read_record(Experiment, self._transport.request("GET", _path(workspace, name)))

    def put(self, workspace: str, name: str) -> Experiment:
        """Return the experiment of that name, made now when there is none."""
        return read_record(Experiment, self._transport.request("PUT", _path(workspace, name)))

    def update(
        self,
        workspace: str,
        name: str,
        *,
        archived: Optional[bool] = None,
        tags_set: Optional[Mapping[str, Optional[str]]] = None,
        tags_remove: Sequence[str] = (),
    ) -> Experiment:
        body: Dict[str, Any] = {}
        if archived is not None:
            body["archived"] = archived
        if tags_set:
            body["tags_set"] = dict(tags_set)
        if tags_remove:
            body["tags_remove"] = list(tags_remove)
        return read_record(Experiment, self._transport.request("PATCH", _path(workspace, name), json=body))

    def delete(self, workspace: str, name: str, *, now: bool = False) -> Deletion:
        """Delete the experiment and all its runs; with `now` for good, also one that is deleted already.

        Raises:
            Conflict: one of its runs has not ended; nothing was deleted.
        """
        query = {"now": "true"} if now else None
        return repeatable_delete(
            lambda: self.get(workspace, name),
            lambda: self._transport.request("DELETE", _path(workspace, name), query=query, timeout_s=600.0),
            now=now,
        )

    def restore(self, workspace: str, name: str) -> List[str]:
        """Bring back a deleted experiment and the runs that were deleted with it; return their ids."""
        path = f"{_path(workspace, name)}/restore"
        return read_answer(self._transport.request("POST", path, timeout_s=600.0), restored_runs)


def _path(workspace: str, name: str) -> str:
    return f"/workspaces/{quote(workspace)}/experiments/{quote(name)}"
