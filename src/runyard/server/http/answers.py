"""Answers: JSON written straight from the records, and packed columns piece by piece."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any, Union, cast

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from runyard.core.config.paths import server_folder
from runyard.core.errors import StoreUnavailable

Piece = Union[bytes, bytearray, memoryview]
PIECE = 256 << 10
HEAVY = 4 << 20  # bytes; of answers that are longer, one caller may hold only so many


def json_answer(value: Any, *, status: int = 200) -> Response:
    """Return records as JSON. The encoder walks them itself: no copy of 100 runs is made first.

    NaN and the infinities, which JSON lacks and browsers refuse, become the texts "NaN", "Infinity" and "-Infinity".
    """
    try:
        body = _dump(value, allow_nan=False)
    except ValueError:
        body = _dump(json.loads(_dump(value, allow_nan=True), parse_constant=str), allow_nan=False)
    encoded = body.encode()
    if len(encoded) <= PIECE:
        return Response(encoded, status_code=status, media_type="application/json")
    return LongAnswer([encoded], media_type="application/json", status=status, is_heavy=len(encoded) > HEAVY)


def _dump(value: Any, *, allow_nan: bool) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=allow_nan)


class LongAnswer(Response):
    """Pieces that are written to a file without a name as fast as they are made, and sent from there.

    A peer that takes its answer slowly so costs a file and one piece of memory, however long the answer is, and the
    store was let go of long before. What is short is kept in memory.
    """

    def __init__(self, pieces: Iterable[Piece], *, media_type: str, status: int = 200, is_heavy: bool = False) -> None:
        """`pieces` are made on a worker thread; what they raise is an error answer. `is_heavy`: only a few at once."""
        super().__init__(b"", status_code=status, media_type=media_type)
        self._pieces: Iterable[Piece] = pieces
        self._is_heavy = is_heavy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services = scope["app"].state.services
        with ExitStack() as stack:
            if self._is_heavy:
                stack.enter_context(services.long_answers.take(scope["state"]["principal"]))
                async with services.building:
                    file = await run_in_threadpool(self._write, server_folder(services.settings.home))
            else:
                file = await run_in_threadpool(self._write, server_folder(services.settings.home))
            stack.enter_context(file)
            await self._send(file, send)

    async def _send(self, file: IO[bytes], send: Send) -> None:
        left = file.seek(0, os.SEEK_END)
        file.seek(0)
        self.headers["content-length"] = str(left)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while left > PIECE:
            body = await run_in_threadpool(file.read, PIECE)
            left -= len(body)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": file.read(left), "more_body": False})

    def _write(self, folder: Path) -> IO[bytes]:
        pieces, self._pieces = self._pieces, ()
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.SpooledTemporaryFile(max_size=PIECE, dir=str(folder), prefix="answer-"))
            try:
                for piece in pieces:
                    file.write(piece)
            except OSError as error:
                raise StoreUnavailable(
                    "The answer is too long for the space that is left on the server's disk.", why=str(error)
                ) from error
            stack.pop_all()  # whoever sends it closes it
            return cast("IO[bytes]", file)


def frames_answer(pieces: Iterable[Piece], *, is_heavy: bool = False) -> Response:
    return LongAnswer(pieces, media_type="application/octet-stream", is_heavy=is_heavy)


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
