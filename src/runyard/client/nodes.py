"""Calls of a node of a cluster about its part of a run."""

from __future__ import annotations

from typing import Any, Dict, Iterator

from runyard.client.answers import read_record
from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.specs import JobSpec


class NodeCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def join(self, run_id: str, rank: int, *, attempt: int, incarnation: str, host: str, address: str) -> JobSpec:
        """Take the node's part of the attempt and return its job.

        Raises:
            Conflict: another process has it, or the attempt is over.
        """
        body: Dict[str, Any] = {"attempt": attempt, "incarnation": incarnation, "host": host, "address": address}
        path = f"/runs/{quote(run_id)}/nodes/{rank}/join"
        return read_record(JobSpec, self._transport.request("POST", path, json=body))

    def iter_uv(self, system: str, machine: str) -> Iterator[bytes]:
        """Yield the bytes of the server's own `uv`.

        Raises:
            NotFound: it has none for such a machine.
        """
        query = [("system", system), ("machine", machine)]
        with self._transport.stream("GET", "/nodes/uv", query=query) as response:
            yield from response.iter_bytes()
