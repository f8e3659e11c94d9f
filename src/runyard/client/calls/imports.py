"""Calls that bring runs of other trackers in."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from runyard.client.decoding import read_answer
from runyard.client.http1 import Buffer, quote
from runyard.client.transport import Transport
from runyard.core.errors import RunyardError, error_from_plain

MOST_IDS = 1000  # of one question
TIMEOUT_S = 300.0  # a thousand runs in one transaction


class ImportedResult(NamedTuple):
    """What became of a run that was sent."""

    id: str
    is_new: bool = False
    points: int = 0  # those that were not there before
    notes: Sequence[str] = ()
    error: Optional[RunyardError] = None


class ImportCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def known(self, workspace: str, ids: Sequence[str]) -> Dict[str, Mapping[str, Any]]:
        """Return of each id that is taken where its run was imported from; {} for a run that was not imported."""
        answer = self._transport.request("POST", f"{_path(workspace)}/known", json={"ids": [*ids]}, timeout_s=TIMEOUT_S)
        return read_answer(answer, lambda plain: {str(key): dict(value) for key, value in plain["known"].items()})

    def put_runs(self, workspace: str, frames: Sequence[Buffer]) -> List[ImportedResult]:
        """Send runs, each a frame of its record and frames of its points; return what became of each, in order."""
        answer = self._transport.request("POST", f"{_path(workspace)}/runs", body=[*frames], timeout_s=TIMEOUT_S)
        return read_answer(answer, lambda plain: [_result(one) for one in plain["results"]])

    def put_asset(
        self,
        workspace: str,
        kind: str,
        name: str,
        version: int,
        document: Mapping[str, Any],
        *,
        key: str = "",
        created_ns: int = 0,
        updated_ns: int = 0,
        about: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Keep that version of a model, an environment or a dataset; return whether it is new.

        Raises:
            Conflict: the version is there, and did not come from the same source.
        """
        body = {
            "kind": kind,
            "name": name,
            "version": version,
            "document": dict(document),
            "key": key,
            "created_ns": created_ns,
            "updated_ns": updated_ns,
            "about": None if about is None else dict(about),
        }
        answer = self._transport.request("POST", f"{_path(workspace)}/assets", json=body, timeout_s=TIMEOUT_S)
        return read_answer(answer, lambda plain: bool(plain["new"]))


def _path(workspace: str) -> str:
    return f"/workspaces/{quote(workspace)}/imports"


def _result(plain: Mapping[str, Any]) -> ImportedResult:
    if "error" in plain:
        return ImportedResult(str(plain["id"]), error=error_from_plain(plain["error"]))
    return ImportedResult(str(plain["id"]), bool(plain["new"]), int(plain["points"]), [str(x) for x in plain["notes"]])
