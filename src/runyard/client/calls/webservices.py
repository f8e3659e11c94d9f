"""Calls about web services: what is deployed. Requests to a service itself go to its address."""

from __future__ import annotations

from datetime import datetime
from typing import Any, List, Optional, Tuple

from runyard.client.decoding import read_answer, read_record, read_records
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.formats.plain import to_plain
from runyard.core.webservices import NewService, ServiceAnswer, ServiceChange, ServiceDescription, Webservice

_ANSWER_S = 330.0  # a first request may wait for the start of a replica
_START_S = 60.0  # the first service starts the gateway


class WebserviceCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, workspace: str) -> List[Webservice]:
        return read_records(Webservice, self._transport.request("GET", _path(workspace)))

    def get(self, workspace: str, name: str) -> Webservice:
        """Raises NotFound."""
        return read_record(Webservice, self._transport.request("GET", _path(workspace, name)))

    def deploy(self, workspace: str, name: str, wanted: NewService) -> Webservice:
        """Raises Conflict: the name is taken, or the service is being changed."""
        path = _path(workspace, name)
        answer = self._transport.request("POST", path, json=to_plain(wanted), timeout_s=_START_S)
        return read_record(Webservice, answer)

    def change(self, workspace: str, name: str, wanted: ServiceChange) -> Webservice:
        """Raises Conflict: the service is being changed."""
        answer = self._transport.request("PATCH", _path(workspace, name), json=to_plain(wanted))
        return read_record(Webservice, answer)

    def rollback(self, workspace: str, name: str, revision: Optional[int] = None) -> Webservice:
        """Serve an earlier revision again, by default the one before."""
        path = f"{_path(workspace, name)}/rollback"
        return read_record(Webservice, self._transport.request("POST", path, json={"revision": revision}))

    def delete(self, workspace: str, name: str) -> None:
        """Twice is fine."""
        self._transport.request("DELETE", _path(workspace, name), timeout_s=_START_S)

    def keys(self, workspace: str, name: str) -> Tuple[str, str]:
        answer = self._transport.request("GET", f"{_path(workspace, name)}/keys")
        return read_answer(answer, lambda plain: (str(plain["primary"]), str(plain["secondary"])))

    def set_key(self, workspace: str, name: str, which: str, value: Optional[str] = None) -> None:
        """Replace the key `Primary` or `Secondary`, by a new one where none is given."""
        self._transport.request("POST", f"{_path(workspace, name)}/keys", json={"key": which, "value": value})

    def token(self, workspace: str, name: str) -> Tuple[str, datetime, datetime]:
        """Return a token, when to ask for the next one, and when it ends."""
        answer = self._transport.request("POST", f"{_path(workspace, name)}/token", json={})
        return read_answer(answer, _token)

    def openapi(self, workspace: str, name: str) -> ServiceDescription:
        """Return the document that the service describes itself with, and a body to try it with."""
        answer = self._transport.request("GET", f"{_path(workspace, name)}/openapi", timeout_s=_ANSWER_S)
        return read_record(ServiceDescription, answer)

    def ask(
        self, workspace: str, name: str, body: bytes, *, path: str = "score", method: str = "POST", kind: str = ""
    ) -> ServiceAnswer:
        """Have the server send a request to the service, with its key, and return the answer whatever its status.

        Args:
            path: below the service's address.
            kind: the Content-Type; JSON where it is empty.
        """
        answer = self._transport.request(
            "POST",
            f"{_path(workspace, name)}/try",
            body=body,
            query={"path": path, "method": method},
            headers={"service-content-type": kind} if kind else None,
            timeout_s=_ANSWER_S,
            retry=False,
        )
        return read_record(ServiceAnswer, answer)

    def access_log(self, workspace: str, name: str, lines: int = 1000) -> List[str]:
        answer = self._transport.request("GET", f"{_path(workspace, name)}/log", query={"lines": str(lines)})
        return read_answer(answer, lambda plain: [str(line) for line in plain["lines"]])


def _token(plain: Any) -> Tuple[str, datetime, datetime]:
    return (
        str(plain["token"]),
        datetime.fromisoformat(plain["refresh_after"]),
        datetime.fromisoformat(plain["expires_at"]),
    )


def _path(workspace: str, name: Optional[str] = None) -> str:
    path = f"/workspaces/{quote(workspace)}/services"
    return path if name is None else f"{path}/{quote(name)}"
