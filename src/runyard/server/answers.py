"""Answers: JSON written straight from the records, and packed columns piece by piece."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE = 256 << 10


def json_answer(value: Any, *, status: int = 200) -> Response:
    """Return records as JSON. The encoder walks them itself: no copy of 100 runs is made first.

    NaN and the infinities, which JSON lacks and browsers refuse, become the texts "NaN", "Infinity" and "-Infinity".
    """
    try:
        body = _dump(value, allow_nan=False)
    except ValueError:
        body = _dump(json.loads(_dump(value, allow_nan=True), parse_constant=str), allow_nan=False)
    return Response(body.encode(), status_code=status, media_type="application/json")


def _dump(value: Any, *, allow_nan: bool) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=allow_nan)


class PiecesAnswer(Response):
    """Bytes-like pieces sent one after the other, large ones cut, so that no second copy of them is made."""

    def __init__(self, pieces: Sequence[bytes | bytearray | memoryview], *, media_type: str) -> None:
        super().__init__(b"", media_type=media_type)
        self._pieces = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        self.headers["content-length"] = str(sum(len(piece) for piece in self._pieces))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            for start in range(0, len(piece), PIECE):
                body = bytes(piece[start : start + PIECE])
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def frames_answer(pieces: Sequence[bytes | bytearray | memoryview]) -> Response:
    return PiecesAnswer(pieces, media_type="application/octet-stream")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return vars(value)
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
