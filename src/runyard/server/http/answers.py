"""Answers of routes: JSON, packed columns, downloads and zips.

JSON is written straight from the records, and packed columns piece by piece. Downloads have headers that keep a browser
from running or showing them. A zip is written while it is sent: it needs no file on the server's disk and a few
megabytes of memory. The last functions check that the server holds the content of a file before the file gets its name.
"""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import IO, Any, Optional, Union, cast
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from runyard.artifacts.content import size_of
from runyard.core.config.paths import server_folder
from runyard.core.errors import DamagedContent, InvalidArgument, NotFound, RunyardError, StoreUnavailable, UserError
from runyard.core.formats.documents import RunWarning
from runyard.core.formats.plain import shallow
from runyard.core.names import check_content_id, clean_file_name
from runyard.core.records import RunChange, RunFile
from runyard.server.services import Services

Piece = Union[bytes, bytearray, memoryview]
PIECE = 256 << 10
HEAVY = 4 << 20  # bytes; of answers that are longer, one caller may hold only so many
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
FIRST_YEAR, LAST_YEAR = 1980, 2107  # what a zip can hold


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
            stack.pop_all()  # the sender closes it
            return cast("IO[bytes]", file)


def frames_answer(pieces: Iterable[Piece], *, is_heavy: bool = False) -> Response:
    return LongAnswer(pieces, media_type="application/octet-stream", is_heavy=is_heavy)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return shallow(value)
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


@dataclass(frozen=True)
class ByteWindow:
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


def window_of(header: str | None, *, size: int, offset: int, limit: int | None) -> ByteWindow | None:
    """Return the bytes asked for; None: a `Range` beyond the end. Several ranges at once get the whole file."""
    match = _RANGE.fullmatch(header.strip()) if header and not offset and limit is None else None
    if match is None or match.group(0) == "bytes=-":
        start = min(offset, size)
        return ByteWindow(start, size if limit is None else min(size, start + limit), is_range=False)
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    return ByteWindow(start, stop, is_range=True) if start < stop else None


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
    name: str,
    size: int,
    read: Callable[[ByteWindow], Iterator[bytes]],
    *,
    window: ByteWindow | None,
    complete: bool = True,
) -> Response:
    """Return the bytes of `window` as a download; None: they are beyond the end.

    The first piece is read here, before anything is sent: a request for damaged content gets an error. To be called
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


logger = logging.getLogger(__name__)


def check_stored(services: Services, file: RunFile) -> RunFile:
    """Return the file under its canonical name.

    Raises:
        MissingContent: some of its chunks are not stored.
        InvalidArgument: it is no stored content, or its size is wrong.
    """
    return _checked(file, services.content.chunk_sizes(_chunks_of(file)))


def check_many_stored(services: Services, files: Sequence[RunFile]) -> list[RunFile | UserError]:
    """Return each file under its canonical name, or what is wrong with it; the index is asked once for all.

    A file that is refused does not keep the others out.
    """
    chunks: list[str] = []
    faults: dict[int, UserError] = {}
    for at, file in enumerate(files):
        try:
            chunks += _chunks_of(file)
        except UserError as error:
            faults[at] = error
    sizes = services.content.chunk_sizes(chunks)
    return [faults.get(at) or _try_one(file, sizes) for at, file in enumerate(files)]


def _try_one(file: RunFile, sizes: Mapping[str, int]) -> RunFile | UserError:
    try:
        return _checked(file, sizes)
    except UserError as error:
        return error


def _chunks_of(file: RunFile) -> list[str]:
    if file.kind != "blob":
        raise InvalidArgument("Only stored content can be named as a file; logs are shipped.")
    for chunk in file.chunks:
        check_content_id(chunk)
    if file.sha256 is not None:
        check_content_id(file.sha256)
    return file.chunks


def _checked(file: RunFile, sizes: Mapping[str, int]) -> RunFile:
    held = size_of(file.chunks, sizes)
    if held != file.size:
        raise InvalidArgument(f"The file {file.name[:200]!r} should have {file.size} bytes, its chunks have {held}.")
    return replace(file, name=clean_file_name(file.name), complete=True, updated_at=None)


def naming_damage(services: Services, run_id: str, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a run's file piece by piece; where its content is damaged or gone, name the file in the error and the run.

    Raises:
        DamagedContent: it is.
    """
    try:
        yield from pieces
    except (NotFound, DamagedContent) as error:
        found = damaged_file(name, error)
        logger.error("run %s: %s", run_id, found)
        note_damage(services, run_id, found)
        raise found from error


def note_damage(services: Services, run_id: str, error: DamagedContent) -> None:
    """Show a warning on the run, once."""
    warning: RunWarning = {"source": "server", "message": f"{error.what} {error.why}"}
    run = services.store.find_run(run_id)
    if run is not None and warning not in run.warnings:
        services.store.update_run(run_id, RunChange(warnings_add=[warning]))


def damaged_file(name: str, error: RunyardError) -> DamagedContent:
    """Return the error of a file whose stored bytes are damaged or gone."""
    state = "damaged" if isinstance(error, DamagedContent) else "missing"
    return DamagedContent(
        f"The content of the file `{name[:200]}` is {state} on the server.",
        why=f"{error.what} {error.why}".strip(),
        hint=error.hint or "Bring the folder `artifacts` of the server's home back from a backup, then download again.",
    )
