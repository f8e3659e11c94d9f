"""Routes of a run's files: list, name, download, and a folder or all files as a zip.

A download is never shown in the origin of our own pages.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NoReturn, Optional

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runyard.core.errors import Conflict, DamagedContent, InvalidArgument, NotFound, RunyardError, TooLarge
from runyard.core.formats.frames import Bytes, pack_frame
from runyard.core.names import clean_file_name
from runyard.core.records import Run, RunFile
from runyard.engine.runs.streams import key_of
from runyard.server.http.answers import (
    ByteWindow,
    Packed,
    check_many_stored,
    check_stored,
    download_answer,
    frames_answer,
    json_answer,
    naming_damage,
    window_of,
    zip_answer,
)
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import BYTES, ZIP, ErrorBody, error_body, gives, sends, takes
from runyard.server.http.requests import parse, with_json
from runyard.server.services import Services

router = APIRouter(tags=["files"])
MAX_WAIT_S = 20.0
PIECE = 1 << 20
MAX_FILES = 1000  # of one request, so that others do not wait long for the database
FETCH_BYTES = 16 << 20


@dataclass(frozen=True)
class FileBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    file: RunFile
    attempt: Optional[int] = None
    replace: bool = True


@dataclass(frozen=True)
class FilesBody:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    files: list[RunFile]
    attempt: Optional[int] = None
    replace: bool = True


@dataclass(frozen=True)
class RefusedFile:
    index: int
    name: str
    error: ErrorBody


@dataclass(frozen=True)
class StoredFiles:
    stored: int
    refused: list[RefusedFile]


@dataclass(frozen=True)
class Names:
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """A file as it is at this moment."""

    file: RunFile
    size: int
    complete: bool
    stream: Optional[str]  # key of a log's stream
    run_id: str


@router.get("/runs/{run_id}/files")
@gives(list[RunFile])
def list_run_files(run_id: str, request: Request) -> Response:
    """List a run's files, sorted by name."""
    call = call_of(request)
    run = call.readable_run(run_id)
    files = call.services.store.list_files(run_id, with_chunks=False)
    return json_answer([_listed(call.services, run, file) for file in files])


@router.post("/runs/{run_id}/files", status_code=201)
@gives(RunFile)
@takes(FileBody)
async def put_run_file(run_id: str, request: Request) -> Response:
    """Name stored content as a file of the run."""
    return await with_json(request, lambda body: _put(call_of(request), run_id, body))


@router.post("/runs/{run_id}/files/batch", status_code=201)
@gives(StoredFiles)
@takes(FilesBody)
async def put_run_files(run_id: str, request: Request) -> Response:
    """Name stored content as many files of the run; one that is refused does not keep the others out."""
    return await with_json(request, lambda body: _put_many(call_of(request), run_id, body))


@router.post("/runs/{run_id}/files/fetch")
@takes(Names)
@sends(BYTES)
async def fetch_run_files(run_id: str, request: Request) -> Response:
    """Return many small files as frames, in the order asked for."""
    return await with_json(request, lambda body: _fetch(call_of(request), run_id, body))


@router.get("/runs/{run_id}/files/{name:path}")
@sends(BYTES, also=206)
async def get_run_file(
    run_id: str,
    name: str,
    request: Request,
    offset: int = 0,
    limit: Optional[int] = None,
    wait_s: float = 0.0,
) -> Response:
    """Download a file, or wait for a log to grow beyond `offset`."""
    call = call_of(request)
    if offset < 0 or (limit is not None and limit < 0):
        raise InvalidArgument("`offset` and `limit` of a download are counts of bytes.")
    found = await run_in_threadpool(_find, call, run_id, name)
    if wait_s > 0 and found.stream is not None and not found.complete and found.size <= offset:
        found = await call.services.growth.wait_until(
            run_id,
            lambda: run_in_threadpool(_find, call, run_id, name),
            lambda seen: seen.size > offset or seen.complete,
            wait_s=min(wait_s, MAX_WAIT_S),
        )
    return await run_in_threadpool(
        download_answer,
        found.file.name,
        found.size,
        lambda window: read_window(call.services, found, window),
        window=window_of(request.headers.get("range"), size=found.size, offset=offset, limit=limit),
        complete=found.complete,
    )


def _listed(services: Services, run: Run, file: RunFile) -> RunFile:
    if file.kind != "stream" or file.complete:
        return replace(file, chunks=[])
    size = services.artifacts.stream_size(key_of(run, file))
    return replace(file, chunks=[], size=size, complete=run.status.is_terminal)


def _find(call: RequestContext, run_id: str, name: str) -> Found:
    return find_in(call.services, call.readable_run(run_id), clean_file_name(name))


def find_in(services: Services, run: Run, name: str) -> Found:
    """Return the run's file of that name as it is at this moment."""
    file = services.store.find_file(run.id, name)
    return as_it_is(services, run, file) if file is not None else _no_file(run, name)


def _no_file(run: Run, name: str) -> NoReturn:
    raise NotFound(f"Run `{run.id}` has no file {name[:200]!r}.", hint=f"`runyard runs show {run.id}` lists its files.")


def as_it_is(services: Services, run: Run, file: RunFile) -> Found:
    """Return a file of a run as it is at this moment; a log may grow on."""
    if file.kind != "stream":
        return Found(file, file.size, complete=True, stream=None, run_id=run.id)
    key = key_of(run, file)
    complete = file.complete or run.status.is_terminal
    return Found(file, services.artifacts.stream_size(key), complete, key, run.id)


def read_window(services: Services, found: Found, window: ByteWindow) -> Iterator[bytes]:
    """Yield some of a file's bytes."""
    if found.stream is None:
        pieces = services.content.read_file(found.file.chunks, offset=window.start, limit=window.length)
        yield from naming_damage(services, found.run_id, found.file.name, pieces)
        return
    for start in range(window.start, window.stop, PIECE):
        yield services.artifacts.read_stream(found.stream, offset=start, length=min(PIECE, window.stop - start))


def _put(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("add_file", run_id)
    wanted = parse(FileBody, body)
    run = _checked_run(call, run_id, wanted.attempt)
    file = check_stored(call.services, wanted.file)
    call.services.quotas.add(run, file)
    stored = call.services.store.put_file(run_id, file, replace=wanted.replace)
    return json_answer(replace(stored, chunks=[]), status=201)


def _put_many(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("add_file", run_id)
    wanted = parse(FilesBody, body)
    _check_count(len(wanted.files))
    run = _checked_run(call, run_id, wanted.attempt)
    checked = [_counted(call, run, item) for item in check_many_stored(call.services, wanted.files)]
    good = [at for at, item in enumerate(checked) if isinstance(item, RunFile)]
    stored = call.services.store.put_files(
        run_id, [item for item in checked if isinstance(item, RunFile)], replace=wanted.replace
    )
    results: dict[int, object] = {**dict(enumerate(checked)), **dict(zip(good, stored))}
    refused = [
        RefusedFile(at, wanted.files[at].name[:200], error_body(item))
        for at, item in results.items()
        if isinstance(item, RunyardError)
    ]
    return json_answer(StoredFiles(len(results) - len(refused), refused), status=201)


def _counted(call: RequestContext, run: Run, item: RunFile | RunyardError) -> RunFile | RunyardError:
    if isinstance(item, RunFile):
        try:
            call.services.quotas.add(run, item)
        except TooLarge as error:
            return error
    return item


def _checked_run(call: RequestContext, run_id: str, attempt: Optional[int]) -> Run:
    run = call.services.store.get_run(run_id)
    if attempt not in (None, run.attempt) and not call.external_writer:
        raise Conflict(f"Run `{run_id}` is at attempt {run.attempt}; the file is of attempt {attempt}.")
    return run


def _check_count(count: int) -> None:
    if count > MAX_FILES:
        raise InvalidArgument(f"{count} files in one request; {MAX_FILES} is the most.", hint="Send several requests.")


def _fetch(call: RequestContext, run_id: str, body: bytes) -> Response:
    run = call.readable_run(run_id)
    names = [clean_file_name(name) for name in parse(Names, body).names]
    _check_count(len(names))
    files = call.services.store.find_files(run_id, names)
    found = [as_it_is(call.services, run, files[name]) if name in files else _no_file(run, name) for name in names]
    size = sum(item.size for item in found)
    if size > FETCH_BYTES:
        raise TooLarge(f"These files have {size} bytes; one request fetches {FETCH_BYTES} at most.")
    chunks = _chunks_of(call.services, [item.file for item in found if item.stream is None])
    frames = [piece for item in found for piece in _framed(call.services, item, chunks)]
    return frames_answer(frames)


def _chunks_of(services: Services, files: Sequence[RunFile]) -> Mapping[str, bytes]:
    """Return the files' chunks, read together; none when one of them is damaged: then each file is read by itself."""
    try:
        return dict(services.content.iter_chunks(list(dict.fromkeys(name for file in files for name in file.chunks))))
    except (NotFound, DamagedContent):
        return {}


def _framed(services: Services, found: Found, chunks: Mapping[str, bytes]) -> list[Bytes]:
    """Return a file as a frame; the head of a file whose content is damaged has the error instead of bytes."""
    head = {"name": found.file.name}
    if found.stream is None and all(name in chunks for name in found.file.chunks):
        return pack_frame(head, b"".join(chunks[name] for name in found.file.chunks))
    try:
        return pack_frame(head, b"".join(read_window(services, found, ByteWindow(0, found.size, is_range=False))))
    except DamagedContent as error:
        return pack_frame({**head, "error": error.to_plain()})


@router.get("/runs/{run_id}/zip")
@sends(ZIP)
def get_run_zip(run_id: str, request: Request, folder: str = "") -> Response:
    """Download the files below `folder`, or all, as one zip; a log as far as it is written."""
    call = call_of(request)
    run = call.readable_run(run_id)
    below = f"{clean_file_name(folder.rstrip('/'))}/" if folder else ""
    files = [file for file in call.services.store.list_files(run_id) if file.name.startswith(below)]
    if not files:
        raise NotFound(
            f"Run `{run_id}` has no files{f' in {folder[:200]!r}' if folder else ''}.",
            hint=f"`runyard runs files {run_id}` lists its files.",
        )
    name = f"{run_id}-{below.replace('/', '-') or 'files-'}".rstrip("-") + ".zip"
    return zip_answer(name, _packed(call.services, run, files))


def _packed(services: Services, run: Run, files: Sequence[RunFile]) -> Iterator[Packed]:
    for file in files:
        found = as_it_is(services, run, file)
        whole = ByteWindow(0, found.size, is_range=False)
        yield Packed(file.name, stat.S_IFREG | 0o644, read_window(services, found, whole), file.updated_at)
