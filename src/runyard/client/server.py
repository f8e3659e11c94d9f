"""Calls about the server itself."""

from __future__ import annotations

from typing import Optional

from runyard.client.answers import Collection, ServerInfo, collection, read_answer, read_record
from runyard.client.transport import Transport


class ServerCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def info(self, *, timeout_s: Optional[float] = None, retry: bool = True) -> ServerInfo:
        answer = self._transport.request("GET", "/server", timeout_s=timeout_s, retry=retry)
        return read_record(ServerInfo, answer)

    def stop(self) -> None:
        """Ask the private server to leave. Live runs go on; a later call starts it again."""
        self._transport.request("POST", "/server/stop", retry=False)

    def collect(self) -> Collection:
        """Free the bytes that nothing refers to any more, as far as no upload can count on them."""
        return read_answer(self._transport.request("POST", "/server/collect", timeout_s=600.0), collection)

    def signin_path(self, next: str = "/") -> str:
        """Return a one-time path that signs a browser in and then shows `next`."""
        return str(self._transport.request("POST", "/signin-codes", json={"next": next}).json()["path"])
