"""Trees and snapshots: a source folder as the content that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runyard.core.errors import InvalidArgument, MissingContent, NotFound
from runyard.core.formats.frames import pack_frame
from runyard.core.formats.tree import snapshot_id
from runyard.core.names import check_content_id
from runyard.server.http.answers import frames_answer, json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, parse_frames, read_body, with_json

router = APIRouter(tags=["content"])
TREES_LIMIT = 64 << 20
SNAPSHOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class SnapshotBody:
    root: str
    files: int = 0
    size_bytes: int = 0


@router.post("/trees", status_code=201)
async def put_trees(request: Request) -> Response:
    """Store trees, children first; each must name only what is stored."""
    body = await read_body(request, TREES_LIMIT)
    return await run_in_threadpool(_put_trees, call_of(request), body)


@router.get("/trees/{tree}")
def get_tree(tree: str, request: Request) -> Response:
    """Return a tree and all below it as frames, root first."""
    call = call_of(request)
    call.may("read_content")
    root = check_content_id(tree)
    call.services.reach.check_root(call.principal, root)
    pieces: list[bytes | bytearray | memoryview] = []
    for name, data in call.services.content.get_tree_closure(root):
        pieces += pack_frame({"id": name}, data)
    return frames_answer(pieces)


@router.post("/snapshots", status_code=201)
@takes(SnapshotBody)
async def put_snapshot(request: Request) -> Response:
    """Record a snapshot by its root tree; the same tree gives the same id."""
    return await with_json(request, lambda body: _put_snapshot(call_of(request), body))


@router.get("/snapshots/{snapshot}")
def get_snapshot(snapshot: str, request: Request) -> Response:
    """Return a snapshot's root tree."""
    return json_answer({"id": snapshot, "root": readable_root(call_of(request), snapshot)})


def readable_root(call: Call, snapshot: str) -> str:
    """Return a snapshot's root tree when who asks may read it."""
    call.may("read_content")
    if not SNAPSHOT_ID.fullmatch(snapshot):
        raise InvalidArgument(f"{snapshot[:80]!r} is not a snapshot's id.")
    root = call.services.store.find_snapshot(snapshot)
    if root is None:
        raise NotFound(f"There is no snapshot `{snapshot}`.")
    call.services.reach.check_root(call.principal, root)
    return root


def _put_trees(call: Call, body: bytes) -> Response:
    call.may("put_content")
    trees = [(str(head.get("id")), bytes(data)) for head, data in parse_frames(body)]
    return json_answer({"stored": call.services.content.put_trees(trees)}, status=201)


def _put_snapshot(call: Call, body: bytes) -> Response:
    call.may("put_content")
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
    return json_answer({"id": snapshot_id(root), "root": root}, status=201)
