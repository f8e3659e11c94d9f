"""Calls of a node of a cluster about its part of a run."""

from __future__ import annotations

import binascii
from typing import Any, Dict, Iterator, NamedTuple

from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.plain import from_plain
from runyard.core.specs import JobSpec


class Joined(NamedTuple):
    job: JobSpec
    snapshot: bytes  # frames of the whole of it (`snapshots.known`), if it is small


class Joining:
    """Takes a node's part of an attempt. The question is under way at once; the answer can wait."""

    def __init__(
        self, transport: Transport, run_id: str, rank: int, *, attempt: int, incarnation: str, host: str, address: str
    ) -> None:
        body = {"attempt": attempt, "incarnation": incarnation, "host": host, "address": address}
        self._asked = transport.begin("POST", f"/runs/{quote(run_id)}/nodes/{rank}/join", json=body)

    def answer(self) -> Joined:
        """Wait for the answer; may be called again after a SystemFailure.

        Raises:
            Conflict: another process has that part, or the attempt is over.
        """
        from runyard.client.answers import read_answer

        return read_answer(self._asked.answer(), _joined)

    def forget(self) -> None:
        """Leave the answer to a forked child."""
        self._asked.forget()


def _joined(plain: Dict[str, Any]) -> Joined:
    return Joined(from_plain(JobSpec, plain), binascii.a2b_base64(plain.get("snapshot") or ""))


class NodeCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def iter_uv(self, system: str, machine: str) -> Iterator[bytes]:
        """Yield the bytes of the server's own `uv`.

        Raises:
            NotFound: it has none for such a machine.
        """
        query = [("system", system), ("machine", machine)]
        with self._transport.stream("GET", "/nodes/uv", query=query) as response:
            yield from response.iter_bytes()
