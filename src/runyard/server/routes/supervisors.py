"""Routes of supervisors and nodes, and the plan of a submit.

Supervisors send shipments, heartbeats and states. Nodes of a cluster ask for our code and their part of a run before
their supervisor can start. Nodes of one gang tell each other what they know; a request that waits for news sleeps on
the event loop, not in a thread. The plans are for `runyard submit --dry-run` and `runyard runs show --plan`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import platform
from dataclasses import dataclass
from typing import Optional

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse

from runyard.core.errors import NotAllowed, NotFound, SubmitRejected
from runyard.core.formats.documents import RunError
from runyard.core.formats.frames import join_frames
from runyard.core.formats.tree import CHUNK, TREE
from runyard.core.names import check_run_id
from runyard.core.records import Run
from runyard.core.specs import JobSpec
from runyard.core.statuses import RunStatus
from runyard.engine.ingest.ship import ShipAnswer
from runyard.engine.runs.events import RunHost
from runyard.engine.runs.join import GangAnswer, Join, NodeWord
from runyard.engine.runs.plan import RunPlan
from runyard.engine.runs.reports import StateReport
from runyard.environments.uv_program import find_uv
from runyard.server.access.permissions import RunPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import BYTES, ZIP, gives, sends, takes, takes_frames
from runyard.server.http.requests import FRAMES_LIMIT, parse, parse_frames, read_body, with_json
from runyard.server.routes.runs import RunRequest, check_target

router = APIRouter(tags=["supervisors"])
MOST_ALONG = 256 << 10  # bytes of a snapshot that travels with the job
MAX_WAIT_S = 20.0
BODY_LIMIT = 256 << 10
# Of a hundred nodes that say something at once, each need not hear a hundred times.
PAUSE_PER_NODE_S, LONGEST_PAUSE_S = 0.002, 0.2


@dataclass(frozen=True)
class Heartbeat:
    attempt: int
    engine_gone: bool = False  # the cluster's process that started the supervisor is gone


@dataclass(frozen=True)
class StateAnswer:
    """What is wanted of the run, and which attempt is due."""

    desired: Optional[str]
    desired_error: Optional[RunError]
    attempt: int
    status: RunStatus


@dataclass(frozen=True)
class NodeJob(JobSpec):
    """`snapshot` is the content of a small snapshot, as frames in base64, so that the node need not ask for it."""

    snapshot: Optional[str] = None


@router.post("/runs/{run_id}/ship")
@gives(ShipAnswer)
@takes_frames
async def ship_records(run_id: str, request: Request) -> Response:
    """Store journal bytes, side files and logs; the answer says how far each is stored."""
    body = await read_body(request, FRAMES_LIMIT)
    return await run_in_threadpool(_ship, call_of(request), run_id, body)


@router.post("/runs/{run_id}/heartbeat")
@gives(StateAnswer)
@takes(Heartbeat)
async def send_heartbeat(run_id: str, request: Request) -> Response:
    """Say that the run's supervisor lives; hear what is wanted of the run."""
    return await with_json(request, lambda body: _heartbeat(call_of(request), run_id, body))


@router.post("/runs/{run_id}/state")
@gives(StateAnswer)
@takes(StateReport)
async def report_state(run_id: str, request: Request) -> Response:
    """Report a phase or the end of the run."""
    return await with_json(request, lambda body: _report(call_of(request), run_id, body))


def _ship(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("ship", run_id)
    if isinstance(call.principal, RunPrincipal):
        attempt = call.principal.attempt
    else:
        attempt = call.services.store.get_run(run_id).attempt
    frames = parse_frames(body)
    return json_answer(call.services.engine.ship(run_id, attempt, frames, external_writer=call.external_writer))


def _heartbeat(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("heartbeat", run_id)
    said = parse(Heartbeat, body, lenient=True)
    run = call.services.engine.heartbeat(
        run_id, said.attempt, external_writer=call.external_writer, cluster_gone=said.engine_gone
    )
    return _desired_state(run)


def _report(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("state", run_id)
    said = parse(StateReport, body, lenient=True)
    return _desired_state(call.services.engine.report(run_id, said, external_writer=call.external_writer))


def _desired_state(run: Run) -> Response:
    return json_answer(StateAnswer(run.desired, run.desired_error, run.due_attempt, run.status))


@router.get("/nodes/bundle")
@sends(ZIP)
async def get_node_bundle(request: Request) -> Response:
    """Return the archive of our code that the ticket of a node names."""
    return await run_in_threadpool(_bundle, call_of(request))


@router.get("/nodes/uv")
@sends(BYTES)
async def get_node_uv(request: Request, system: str, machine: str) -> Response:
    """Return the program `uv` of the server's machine, for nodes of the same kind that have none."""
    return await run_in_threadpool(_uv, call_of(request), system, machine)


@router.get("/runs/{run_id}/nodes")
@gives(list[RunHost])
def list_run_nodes(run_id: str, request: Request) -> Response:
    """List the machines of all attempts of a run."""
    call = call_of(request)
    return json_answer(call.services.engine.list_hosts(call.readable_run(run_id)))


@router.post("/runs/{run_id}/nodes/{rank}/join")
@gives(NodeJob)
@takes(Join)
async def join_node(run_id: str, rank: int, request: Request) -> Response:
    """Take a node's part of an attempt; the answer is its job, for one process only."""
    return await with_json(request, lambda body: _join(call_of(request), run_id, rank, body))


def _bundle(call: RequestContext) -> Response:
    call.require("read_server")
    bundle = call.services.engine.bundle()
    headers = {"X-Runyard-Bundle": bundle.key, "Content-Disposition": "attachment"}
    return Response(bundle.data, media_type="application/zip", headers=headers)


def _uv(call: RequestContext, system: str, machine: str) -> Response:
    call.require("read_server")
    if (system, machine) != (platform.system(), platform.machine()):
        raise NotFound(f"This server has no `uv` for {system[:40]} on {machine[:40]}.", hint="Install it on the node.")
    try:
        return FileResponse(find_uv(os.environ), media_type="application/octet-stream", filename="uv")
    except SubmitRejected as error:
        raise NotFound("This server has no `uv` to give.", why=error.what, hint="Install it on the node.") from error


def _join(call: RequestContext, run_id: str, rank: int, body: bytes) -> Response:
    call.require("join", run_id)
    job = call.services.engine.join(run_id, rank, parse(Join, body, lenient=True))
    return json_answer(NodeJob(**vars(job), snapshot=_small_snapshot(call, job.snapshot_root)))


def _small_snapshot(call: RequestContext, root: str | None) -> str | None:
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


@router.post("/runs/{run_id}/nodes/{rank}")
@gives(GangAnswer)
@takes(NodeWord)
async def tell_nodes(run_id: str, rank: int, request: Request) -> Response:
    """Say that a node lives and what it knows; the answer comes when there is news for it, or after `wait_s`."""
    call, body = call_of(request), await read_body(request, BODY_LIMIT)
    loop = asyncio.get_running_loop()
    with call.services.nodes.watch(run_id) as changed:
        said, answer = await run_in_threadpool(_hear, call, run_id, rank, body)
        until = loop.time() + min(max(said.wait_s, 0.0), MAX_WAIT_S)
        while answer.version == said.since and loop.time() < until:
            try:
                await asyncio.wait_for(changed.wait(), until - loop.time())
            except (asyncio.TimeoutError, TimeoutError):
                break
            await asyncio.sleep(min(PAUSE_PER_NODE_S * len(answer.nodes), LONGEST_PAUSE_S))
            changed.clear()
            answer = await run_in_threadpool(call.services.engine.look_at_nodes, run_id, said.attempt)
    return json_answer(answer)


def _hear(call: RequestContext, run_id: str, rank: int, body: bytes) -> tuple[NodeWord, GangAnswer]:
    call.require("node", run_id)
    said = parse(NodeWord, body, lenient=True)
    principal = call.principal
    if isinstance(principal, RunPrincipal) and principal.attempt != said.attempt:
        raise NotAllowed(f"This token is of attempt {principal.attempt}; it cannot speak for {said.attempt}.")
    return said, call.services.engine.hear_node(run_id, rank, said)


@router.post("/runs/plan")
@gives(RunPlan)
@takes(RunRequest)
async def plan_run(request: Request) -> Response:
    """Say what `POST /runs` with this body would start; nothing is stored."""
    return await with_json(request, lambda body: _plan(call_of(request), body))


@router.get("/runs/{run_id}/plan")
@gives(RunPlan)
def get_run_plan(run_id: str, request: Request) -> Response:
    """Say what the run's target was given for its present attempt; secrets are hidden."""
    call = call_of(request)
    call.require("read_run", run_id)
    return json_answer(call.services.engine.plan_of(call.services.store.get_run(check_run_id(run_id))))


def _plan(call: RequestContext, body: bytes) -> Response:
    call.require("plan_run")
    wanted = parse(RunRequest, body, unchecked=["submitter"])
    check_target(call, wanted.run.workspace, wanted.run.spec.target)
    return json_answer(call.services.engine.plan(wanted.run, submitter=wanted.submitter))
