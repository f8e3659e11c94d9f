"""Routes of content: chunks by their hash, trees and snapshots, and the files of a snapshot.

The files of a snapshot are listed, downloaded one by one or as a zip, and compared with another snapshot's.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from runyard.artifacts.content import ContentStore
from runyard.artifacts.listing import Differences, Folders, SnapshotFile, compare, list_files
from runyard.core.errors import DamagedContent, InvalidArgument, MissingContent, NotFound, TooLarge
from runyard.core.formats.frames import pack_frame
from runyard.core.formats.tree import FileEntry, LinkEntry, name_bytes, snapshot_id
from runyard.core.names import check_content_id
from runyard.server.http.answers import (
    Packed,
    damaged_file,
    download_answer,
    frames_answer,
    json_answer,
    link_mode,
    window_of,
    zip_answer,
)
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import BYTES, ZIP, gives, sends, takes, takes_frames
from runyard.server.http.requests import parse, parse_frames, read_body, with_json

router = APIRouter(tags=["content"])
MAX_IDS = 50_000
CHUNKS_LIMIT = 33 << 20  # 32 MiB of content and its heads
TREES_LIMIT = 64 << 20
SNAPSHOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOST_LISTED = 50_000
MOST_PACKED = 500_000


@dataclass(frozen=True)
class Ids:
    ids: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MissingChunks:
    missing: list[str]


@dataclass(frozen=True)
class StoredCount:
    stored: int


@dataclass(frozen=True)
class FreedBytes:
    freed_bytes: int


@router.post("/chunks/missing")
@gives(MissingChunks)
@takes(Ids)
async def find_missing_chunks(request: Request) -> Response:
    """Say which of some chunks are not stored."""
    return await with_json(request, lambda body: _missing(call_of(request), body))


@router.post("/chunks", status_code=201)
@gives(StoredCount)
@takes_frames
async def put_chunks(request: Request) -> Response:
    """Store chunks; the hash of each is checked."""
    body = await read_body(request, CHUNKS_LIMIT)
    return await run_in_threadpool(_put, call_of(request), body)


@router.post("/chunks/release")
@gives(FreedBytes)
@takes(Ids)
async def release_chunks(request: Request) -> Response:
    """Take back what an upload of the caller's that failed has stored, as far as nothing names it."""
    return await with_json(request, lambda body: _release(call_of(request), body))


@router.post("/chunks/fetch")
@takes(Ids)
@sends(BYTES)
async def fetch_chunks(request: Request) -> Response:
    """Return chunks as frames, in the order asked for."""
    return await with_json(request, lambda body: _fetch(call_of(request), body))


def _missing(call: RequestContext, body: bytes) -> Response:
    call.require("put_content")
    return json_answer(MissingChunks(call.services.content.missing(_ids(body))))


def _put(call: RequestContext, body: bytes) -> Response:
    call.require("put_content")
    if call.services.server_settings.is_team:
        call.services.room.check(len(body), "The content of this request")
    chunks = [(str(head.get("id")), bytes(data)) for head, data in parse_frames(body)]
    stored = call.services.content.put_chunks(chunks, uploader=repr(call.principal))
    return json_answer(StoredCount(stored), status=201)


def _release(call: RequestContext, body: bytes) -> Response:
    call.require("put_content")
    ids, services = _ids(body), call.services
    # The upload filled the disk, as a rule, and the index needs room to forget its chunks.
    freed = services.engine.reserve.spend(lambda: services.collecting.take_back(ids, repr(call.principal)))
    return json_answer(FreedBytes(freed))


def _fetch(call: RequestContext, body: bytes) -> Response:
    call.require("read_content")
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


@dataclass(frozen=True)
class SnapshotBody:
    root: str
    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class SnapshotRoot:
    id: str
    root: str


@dataclass(frozen=True)
class SnapshotFiles(SnapshotRoot):
    files: list[SnapshotFile]
    more: bool


@router.post("/trees", status_code=201)
@gives(StoredCount)
@takes_frames
async def put_trees(request: Request) -> Response:
    """Store trees, children first; each must name only what is stored."""
    body = await read_body(request, TREES_LIMIT)
    return await run_in_threadpool(_put_trees, call_of(request), body)


@router.get("/trees/{tree}")
@sends(BYTES)
def get_tree(tree: str, request: Request) -> Response:
    """Return a tree and all below it as frames, root first."""
    call = call_of(request)
    call.require("read_content")
    root = check_content_id(tree)
    call.services.reach.check_root(call.principal, root)
    pieces: list[bytes | bytearray | memoryview] = []
    for name, data in call.services.content.get_tree_closure(root):
        pieces += pack_frame({"id": name}, data)
    return frames_answer(pieces)


@router.post("/snapshots", status_code=201)
@gives(SnapshotRoot)
@takes(SnapshotBody)
async def put_snapshot(request: Request) -> Response:
    """Record a snapshot by its root tree; the same tree gives the same id."""
    return await with_json(request, lambda body: _put_snapshot(call_of(request), body))


@router.get("/snapshots/{snapshot}")
@gives(SnapshotRoot)
def get_snapshot(snapshot: str, request: Request) -> Response:
    """Return a snapshot's root tree."""
    return json_answer(SnapshotRoot(snapshot, readable_root(call_of(request), snapshot)))


def readable_root(call: RequestContext, snapshot: str) -> str:
    """Return a snapshot's root tree when the principal may read it."""
    call.require("read_content")
    if not SNAPSHOT_ID.fullmatch(snapshot):
        raise InvalidArgument(f"{snapshot[:80]!r} is not a snapshot's id.")
    root = call.services.store.find_snapshot(snapshot)
    if root is None:
        raise NotFound(f"There is no snapshot `{snapshot}`.")
    call.services.reach.check_root(call.principal, root)
    return root


def _put_trees(call: RequestContext, body: bytes) -> Response:
    call.require("put_content")
    trees = [(str(head.get("id")), bytes(data)) for head, data in parse_frames(body)]
    return json_answer(StoredCount(call.services.content.put_trees(trees)), status=201)


def _put_snapshot(call: RequestContext, body: bytes) -> Response:
    call.require("put_content")
    wanted = parse(SnapshotBody, body)
    root = check_content_id(wanted.root)
    if min(wanted.files, wanted.size_bytes) < 0 or max(wanted.files, wanted.size_bytes) >= 1 << 62:
        raise InvalidArgument("`files` and `size_bytes` of a snapshot are counts.")
    if not call.services.content.has_tree(root):
        raise MissingContent(
            f"The snapshot's root tree {root} is not stored.",
            hint="Send its trees with `POST /api/v1/trees` first.",
            details={"missing": [root]},
        )
    call.services.store.put_snapshot(snapshot_id(root), root, files=wanted.files, size_bytes=wanted.size_bytes)
    return json_answer(SnapshotRoot(snapshot_id(root), root), status=201)


@router.get("/snapshots/{snapshot}/files")
@gives(SnapshotFiles)
def list_snapshot_files(snapshot: str, request: Request) -> Response:
    """List a snapshot's files and links, sorted by path."""
    folders = _folders(request, snapshot)
    files, more = list_files(folders, limit=MOST_LISTED)
    return json_answer(SnapshotFiles(snapshot, folders.root, files, more))


@router.get("/snapshots/{snapshot}/files/{path:path}")
@sends(BYTES, also=206)
def get_snapshot_file(snapshot: str, path: str, request: Request) -> Response:
    """Download one file. The path is looked up in the snapshot's own folders, never on a disk."""
    content = call_of(request).services.content
    entry = _folders(request, snapshot).find(path)
    if entry is None:
        raise NotFound(
            f"Snapshot `{snapshot}` has no file {path[:200]!r}.",
            hint=f"`GET /api/v1/snapshots/{snapshot}/files` lists what it has.",
        )
    size = entry.size if isinstance(entry, FileEntry) else len(name_bytes(entry.target))
    window = window_of(request.headers.get("range"), size=size, offset=0, limit=None)
    return download_answer(
        path, size, lambda part: _read(content, entry, offset=part.start, limit=part.length), window=window
    )


@router.get("/snapshots/{snapshot}/zip")
@sends(ZIP)
def get_snapshot_zip(snapshot: str, request: Request) -> Response:
    """Download all files of a snapshot as one zip."""
    content = call_of(request).services.content
    folders = _folders(request, snapshot)
    if folders.count() > MOST_PACKED:
        raise TooLarge(
            f"Snapshot `{snapshot}` has more than {MOST_PACKED} files, too many for a zip.",
            hint="Fetch it with the SDK: `run.restore_snapshot(path='code')`.",
        )
    return zip_answer(f"snapshot-{snapshot[:8]}.zip", _packed(content, folders))


@router.get("/snapshots/{snapshot}/diff")
@gives(Differences)
def get_snapshot_diff(snapshot: str, request: Request, other: str = Query(alias="with")) -> Response:
    """Say which files of `with` were added, removed or changed to make this snapshot."""
    before, after = _folders(request, other), _folders(request, snapshot)
    return json_answer(compare(before, after, limit=MOST_LISTED))


def _folders(request: Request, snapshot: str) -> Folders:
    call = call_of(request)
    return Folders(call.services.content, readable_root(call, snapshot))


def _packed(content: ContentStore, folders: Folders) -> Iterator[Packed]:
    for path, entry in folders.walk():
        if entry is not None:
            mode = stat.S_IFREG | entry.mode if isinstance(entry, FileEntry) else link_mode()
            yield Packed(path, mode, _read(content, entry))


def _read(
    content: ContentStore, entry: FileEntry | LinkEntry, *, offset: int = 0, limit: int | None = None
) -> Iterator[bytes]:
    if isinstance(entry, FileEntry):
        try:
            yield from content.read_file(entry.chunks, offset=offset, limit=limit)
        except (NotFound, DamagedContent) as error:
            raise damaged_file(entry.name, error) from error
    else:
        target = name_bytes(entry.target)
        yield target[offset : len(target) if limit is None else offset + limit]
