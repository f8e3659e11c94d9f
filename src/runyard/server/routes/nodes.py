"""What nodes of a cluster ask before their supervisor can run: our code, and their part of a run."""

from __future__ import annotations

import base64
import os
import platform

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse

from runyard.core.errors import NotFound, SubmitRejected
from runyard.core.formats.frames import join_frames
from runyard.core.formats.plain import to_plain
from runyard.core.formats.tree import CHUNK, TREE
from runyard.engine.runs.events import list_hosts
from runyard.engine.runs.join import Join
from runyard.environments.uv_program import find_uv
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, with_json

router = APIRouter(tags=["nodes"])

MOST_ALONG = 256 << 10  # bytes of a snapshot that travels with the job


@router.get("/nodes/bundle")
async def get_bundle(request: Request) -> Response:
    """Return the archive of our code that the ticket of a node names."""
    return await run_in_threadpool(_bundle, call_of(request))


@router.get("/nodes/uv")
async def get_uv(request: Request, system: str, machine: str) -> Response:
    """Return the program `uv` of the server's machine, for nodes of the same kind that have none."""
    return await run_in_threadpool(_uv, call_of(request), system, machine)


@router.get("/runs/{run_id}/nodes")
def list_nodes(run_id: str, request: Request) -> Response:
    """List the machines of all attempts of a run."""
    call = call_of(request)
    return json_answer(list_hosts(call.services.engine.yard, call.readable_run(run_id)))


@router.post("/runs/{run_id}/nodes/{rank}/join")
@takes(Join)
async def join(run_id: str, rank: int, request: Request) -> Response:
    """Take a node's part of an attempt; the answer is its job, for one process only."""
    return await with_json(request, lambda body: _join(call_of(request), run_id, rank, body))


def _bundle(call: Call) -> Response:
    call.may("read_server")
    bundle = call.services.engine.bundle()
    headers = {"X-Runyard-Bundle": bundle.key, "Content-Disposition": "attachment"}
    return Response(bundle.data, media_type="application/zip", headers=headers)


def _uv(call: Call, system: str, machine: str) -> Response:
    call.may("read_server")
    if (system, machine) != (platform.system(), platform.machine()):
        raise NotFound(f"This server has no `uv` for {system[:40]} on {machine[:40]}.", hint="Install it on the node.")
    try:
        return FileResponse(find_uv(os.environ), media_type="application/octet-stream", filename="uv")
    except SubmitRejected as error:
        raise NotFound("This server has no `uv` to give.", why=error.what, hint="Install it on the node.") from error


def _join(call: Call, run_id: str, rank: int, body: bytes) -> Response:
    call.may("join", run_id)
    job = call.services.engine.join(run_id, rank, parse(Join, body, lenient=True))
    return json_answer({**to_plain(job), "snapshot": _small_snapshot(call, job.snapshot_root)})


def _small_snapshot(call: Call, root: str | None) -> str | None:
    """Return a small snapshot's content, so that the node need not ask for it; None: it does."""
    if root is None:
        return None
    found = call.services.content.get_small_snapshot(root, most_bytes=MOST_ALONG)
    if found is None:
        return None
    trees, chunks = found
    frames = [({TREE: name}, data) for name, data in trees.items()]
    frames += [({CHUNK: name}, data) for name, data in chunks.items()]
    return base64.b64encode(join_frames(frames)).decode("ascii")
