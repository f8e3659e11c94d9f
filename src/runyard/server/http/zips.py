"""A folder as a zip, written while it is sent: no file on the server's disk, a few megabytes in memory."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Optional
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from starlette.responses import Response, StreamingResponse

from runyard.server.http.downloads import download_headers

FIRST_YEAR, LAST_YEAR = 1980, 2107  # what a zip can hold


@dataclass(frozen=True)
class Packed:
    """One file to pack; `mode` has the bits of its kind too (`stat.S_IFREG | 0o644`)."""

    path: str
    mode: int
    pieces: Iterable[bytes]
    at: Optional[datetime] = None


def zip_answer(name: str, files: Iterable[Packed]) -> Response:
    """Return the files as a download of that name."""
    headers = download_headers(name, 0, complete=True)
    del headers["X-Runyard-Size"], headers["Accept-Ranges"]  # not known before it is sent
    return StreamingResponse(zip_pieces(files), headers=headers, media_type="application/zip")


def zip_pieces(files: Iterable[Packed]) -> Iterator[bytes]:
    """Yield a zip's bytes."""
    out = _Pipe()
    with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=4) as packing:
        for file in files:
            with packing.open(_info(file), "w", force_zip64=True) as entry:
                for piece in file.pieces:
                    entry.write(piece)
                    yield from out.take()
    yield from out.take()


def link_mode() -> int:
    return stat.S_IFLNK | 0o777


def _info(file: Packed) -> ZipInfo:
    info = ZipInfo(safe_name(file.path), _zip_time(file.at))
    info.compress_type = ZIP_DEFLATED
    info.create_system = 3  # unix: the mode counts
    info.external_attr = file.mode << 16
    return info


def safe_name(path: str) -> str:
    """Return the name in the zip: one that says nothing else to a Windows machine, and has bytes in UTF-8."""
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return shown.replace("\\", "%5C").replace(":", "%3A")


def _zip_time(at: datetime | None) -> tuple[int, int, int, int, int, int]:
    utc = at.astimezone(timezone.utc) if at is not None else None
    if utc is None or not FIRST_YEAR <= utc.year <= LAST_YEAR:
        return (FIRST_YEAR, 1, 1, 0, 0, 0)
    return (utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second)


class _Pipe(io.RawIOBase):
    """Takes what `ZipFile` writes and hands it out again; says that it cannot seek, so nothing is written twice."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]  # RawIOBase names a private buffer type
        self._pieces.append(piece)
        return len(piece)

    def take(self) -> Iterator[bytes]:
        pieces, self._pieces = self._pieces, []
        if pieces:
            yield b"".join(pieces)
