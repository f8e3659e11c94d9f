"""Content by its hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from runyard.core.errors import DamagedContent, InvalidArgument
from runyard.core.formats.frames import pack_frame
from runyard.core.names import check_content_id
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, parse_frames, read_body, with_json

router = APIRouter(prefix="/chunks", tags=["content"])
MAX_IDS = 50_000
CHUNKS_LIMIT = 33 << 20  # 32 MiB of content and its heads


@dataclass(frozen=True)
class Ids:
    ids: list[str] = field(default_factory=list)


@router.post("/missing")
@takes(Ids)
async def find_missing(request: Request) -> Response:
    """Say which of some chunks are not stored."""
    return await with_json(request, lambda body: _missing(call_of(request), body))


@router.post("", status_code=201)
async def put_chunks(request: Request) -> Response:
    """Store chunks; the hash of each is checked."""
    body = await read_body(request, CHUNKS_LIMIT)
    return await run_in_threadpool(_put, call_of(request), body)


@router.post("/release")
@takes(Ids)
async def release_chunks(request: Request) -> Response:
    """Take back what an upload of the caller's that failed has stored, as far as nothing names it."""
    return await with_json(request, lambda body: _release(call_of(request), body))


@router.post("/fetch")
@takes(Ids)
async def fetch_chunks(request: Request) -> Response:
    """Return chunks as frames, in the order asked for."""
    return await with_json(request, lambda body: _fetch(call_of(request), body))


def _missing(call: Call, body: bytes) -> Response:
    call.may("put_content")
    return json_answer({"missing": call.services.content.missing(_ids(body))})


def _put(call: Call, body: bytes) -> Response:
    call.may("put_content")
    if call.services.server_settings.is_team:
        call.services.room.check(len(body), "The content of this request")
    chunks = [(str(head.get("id")), bytes(data)) for head, data in parse_frames(body)]
    stored = call.services.content.put_chunks(chunks, uploader=repr(call.principal))
    return json_answer({"stored": stored}, status=201)


def _release(call: Call, body: bytes) -> Response:
    call.may("put_content")
    ids, services = _ids(body), call.services
    # The upload filled the disk, as a rule, and the index needs room to forget its chunks.
    freed = services.engine.reserve.spend(lambda: services.collecting.take_back(ids, repr(call.principal)))
    return json_answer({"freed_bytes": freed})


def _fetch(call: Call, body: bytes) -> Response:
    call.may("read_content")
    ids = _ids(body)
    call.services.reach.check(call.principal, ids)
    found = call.services.content.iter_chunks(ids)
    first = next(found, None)  # a missing chunk is an error answer, not a body cut off
    pieces = () if first is None else _chain(first, found)
    return StreamingResponse(_frames(pieces), media_type="application/octet-stream")


def _ids(body: bytes) -> list[str]:
    ids = parse(Ids, body).ids
    if len(ids) > MAX_IDS:
        raise InvalidArgument(f"{len(ids)} ids in one request; {MAX_IDS} is the most.")
    return [check_content_id(name) for name in ids]


def _chain(first: tuple[str, bytes], rest: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    yield first
    yield from rest


def _frames(chunks: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    try:
        for name, data in chunks:
            yield b"".join(pack_frame({"id": name}, data))
    except DamagedContent as error:  # the answer has begun: its last frame says why there are no more
        yield b"".join(pack_frame({"error": error.to_plain()}))
