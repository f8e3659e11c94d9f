"""Calls by which a node of a cluster fetches its part of a run."""

from __future__ import annotations

import binascii
import json
from typing import Iterator, NamedTuple

from runyard.client.http1 import quote
from runyard.client.transport import Transport
from runyard.core.errors import ProtocolError
from runyard.core.formats.plain import from_plain
from runyard.core.specs import JobSpec


class Joined(NamedTuple):
    """The answer to a node that joins."""

    job: JobSpec
    snapshot: bytes  # frames of the whole snapshot (`snapshots.fetch.Known`), if it is small


def read_joined(answer: bytes) -> Joined:
    """Raises ProtocolError."""
    try:
        plain = json.loads(answer)
        return Joined(from_plain(JobSpec, plain), binascii.a2b_base64(plain.get("snapshot") or ""))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ProtocolError("The server's answer is not a node's job.", why=f"{error}.") from error


class NodeCalls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def join(self, run_id: str, rank: int, *, attempt: int, incarnation: str, host: str, address: str) -> bytes:
        """Take the node's part of the attempt; `read_joined` reads the answer.

        Raises:
            Conflict: another process has it, or the attempt is over.
        """
        body = {"attempt": attempt, "incarnation": incarnation, "host": host, "address": address}
        answer = self._transport.request("POST", f"/runs/{quote(run_id)}/nodes/{rank}/join", json=body).read()
        if b'"run_id"' not in answer:  # parsed by the supervisor, which could not ask again
            raise ProtocolError("The server's answer is not a node's job.", why=f"It starts with {answer[:80]!r}.")
        return answer

    def iter_uv(self, system: str, machine: str) -> Iterator[bytes]:
        """Yield the bytes of the server's own `uv`.

        Raises:
            NotFound: it has none for such a machine.
        """
        query = [("system", system), ("machine", machine)]
        with self._transport.stream("GET", "/nodes/uv", query=query) as response:
            yield from response.iter_bytes()
