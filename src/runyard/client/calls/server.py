"""Calls about the server itself."""

from __future__ import annotations

import time
from typing import Optional, Tuple

from runyard.client.decoding import Collection, ServerInfo, collection, read_answer, read_record
from runyard.client.transport import Transport


class ServerCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def info(self, *, timeout_s: Optional[float] = None, retry: bool = True) -> ServerInfo:
        answer = self._transport.request("GET", "/server", timeout_s=timeout_s, retry=retry)
        return read_record(ServerInfo, answer)

    def clock_offset(self, *, tries: int = 3) -> Tuple[float, float]:
        """Return how far the server's clock is ahead of this one, and the time of an answer, both in seconds."""
        found = []
        for _ in range(tries):
            before = time.time_ns()
            there = read_answer(self._transport.request("GET", "/server"), lambda plain: int(plain["time_ns"]))
            after = time.time_ns()
            found.append(((after - before) / 1e9, (there - (before + after) / 2) / 1e9))
        answer_s, offset_s = min(found)
        return offset_s, answer_s

    def stop(self) -> None:
        """Ask the private server to leave. Live runs go on; a later call starts it again."""
        self._transport.request("POST", "/server/stop", retry=False)

    def collect(self, *, everything: bool = False) -> Collection:
        """Free the bytes that nothing refers to any more, as far as no upload can count on them.

        With `everything` also what lies aside, and what unfinished uploads have sent: they send it again.
        """
        path = "/server/collect?everything=true" if everything else "/server/collect"
        return read_answer(self._transport.request("POST", path, timeout_s=600.0), collection)

    def signin_path(self, next: str = "/") -> str:
        """Return a one-time path that signs a browser in and then shows `next`."""
        answer = self._transport.request("POST", "/signin-codes", json={"next": next})
        return read_answer(answer, lambda plain: str(plain["path"]))
