"""Downloads: which bytes are asked for, and headers that keep a browser from running or showing them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True)
class Window:
    """Bytes [start, stop) of a file; `is_range` when a `Range` header asked for them."""

    start: int
    stop: int
    is_range: bool

    @property
    def length(self) -> int:
        return self.stop - self.start

    def headers(self, size: int) -> dict[str, str]:
        found = {"Content-Length": str(self.length)}
        if self.is_range:
            found["Content-Range"] = f"bytes {self.start}-{self.stop - 1}/{size}"
        return found


def window_of(header: str | None, *, size: int, offset: int, limit: int | None) -> Window | None:
    """Return the bytes asked for; None: a `Range` beyond the end. Several ranges at once get the whole file."""
    match = _RANGE.fullmatch(header.strip()) if header and not offset and limit is None else None
    if match is None or match.group(0) == "bytes=-":
        start = min(offset, size)
        return Window(start, size if limit is None else min(size, start + limit), is_range=False)
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    return Window(start, stop, is_range=True) if start < stop else None


def download_headers(name: str, size: int, *, complete: bool) -> dict[str, str]:
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name.rpartition('/')[2], safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Accept-Ranges": "bytes",
        "X-Runyard-Size": str(size),
        "X-Runyard-Complete": "1" if complete else "0",
    }


def download_answer(
    name: str, size: int, read: Callable[[Window], Iterator[bytes]], *, window: Window | None, complete: bool = True
) -> Response:
    """Return the bytes of `window` as a download; None: they are beyond the end.

    The first piece is read here, before anything is answered: whoever asks for damaged content hears why. To be called
    in a thread.
    """
    headers = download_headers(name, size, complete=complete)
    if window is None:
        return Response(b"", status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    pieces = read(window)
    return StreamingResponse(
        chain((next(pieces, b""),), pieces),
        status_code=206 if window.is_range else 200,
        headers={**headers, **window.headers(size)},
        media_type="application/octet-stream",
    )
