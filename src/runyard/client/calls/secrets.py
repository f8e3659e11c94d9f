"""Calls about the secrets of a workspace."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from runyard.client.decoding import read_answer
from runyard.client.http1 import quote
from runyard.client.transport import Transport


class SecretCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str) -> List[str]:
        return read_answer(self._transport.request("GET", _path(workspace)), lambda plain: [str(one) for one in plain])

    def get(self, workspace: str, name: str) -> str:
        """Raises NotFound: there is none of that name."""
        answer = self._transport.request("GET", _path(workspace, name))
        return read_answer(answer, lambda plain: str(plain["value"]))

    def put(
        self, workspace: str, name: str, value: Optional[str] = None, *, readers: Optional[Sequence[str]] = None
    ) -> None:
        """Set the value, the users who read it ("*": all of the team), or both; what is None stays."""
        body: Dict[str, Any] = {} if value is None else {"value": value}
        if readers is not None:
            body["readers"] = [*readers]
        self._transport.request("PUT", _path(workspace, name), json=body)

    def delete(self, workspace: str, name: str) -> None:
        """Twice is fine."""
        self._transport.request("DELETE", _path(workspace, name))


def _path(workspace: str, name: Optional[str] = None) -> str:
    path = f"/workspaces/{quote(workspace)}/secrets"
    return path if name is None else f"{path}/{quote(name)}"
