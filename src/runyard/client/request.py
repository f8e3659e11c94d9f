"""One request as the bytes that travel."""

from __future__ import annotations

import json as jsonlib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from runyard import __version__
from runyard.client.address import Address
from runyard.client.http1 import Buffer, quote
from runyard.core.errors import ProtocolError

BASE = "/api/v1"
JSON_TYPE = "application/json"
FRAMES_TYPE = "application/x-runyard-frames"

Query = Union[Mapping[str, Any], Sequence[Tuple[str, Any]]]
Body = Union[Buffer, Sequence[Buffer]]


class Request(NamedTuple):
    method: str
    path: str
    query: Optional[Query]
    json: Any
    body: Optional[Body]
    headers: Optional[Mapping[str, str]]

    def pieces(self, address: Address) -> List[Buffer]:
        payload, content_type = self._payload()
        fields = {
            "Host": address.authority,
            "User-Agent": f"runyard/{__version__}",
            "Authorization": f"Bearer {address.token}",
            **content_type,
        }
        if payload or self.method not in ("GET", "HEAD"):
            fields["Content-Length"] = str(sum(len(piece) for piece in payload))
        fields.update(self.headers or {})
        start = f"{self.method} {BASE}{self.path}{_query_text(self.query)} HTTP/1.1"
        lines = [start, *(f"{name}: {value}" for name, value in fields.items())]
        if any("\n" in line or "\r" in line for line in lines):
            raise ProtocolError("A request's head holds a line break.", why="A path or header value was not encoded.")
        return [("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), *payload]

    def _payload(self) -> Tuple[List[Buffer], Dict[str, str]]:
        if self.json is not None:
            return [jsonlib.dumps(self.json, separators=(",", ":")).encode()], {"Content-Type": JSON_TYPE}
        if self.body is None:
            return [], {}
        if isinstance(self.body, (bytes, bytearray, memoryview)):
            return [self.body], {"Content-Type": FRAMES_TYPE}
        return list(self.body), {"Content-Type": FRAMES_TYPE}


def _query_text(query: Optional[Query]) -> str:
    if not query:
        return ""
    pairs = query.items() if isinstance(query, Mapping) else query
    parts = [f"{quote(name)}={quote(_query_value(value))}" for name, value in pairs if value is not None]
    return "?" + "&".join(parts) if parts else ""


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
