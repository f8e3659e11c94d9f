"""Nodes of one job tell each other what they know; who waits for news sleeps on the event loop, not in a thread."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runyard.core.errors import NotAllowed
from runyard.engine.runs.gang import NodeWord, hear_node, look
from runyard.server.access.permissions import RunPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, read_body

router = APIRouter(tags=["nodes"])
MAX_WAIT_S = 20.0
BODY_LIMIT = 256 << 10
# Of a hundred nodes that say something at once, each need not hear a hundred times.
PAUSE_PER_NODE_S, LONGEST_PAUSE_S = 0.002, 0.2


@router.post("/runs/{run_id}/nodes/{rank}")
@takes(NodeWord)
async def speak(run_id: str, rank: int, request: Request) -> Response:
    """Say that a node lives and what it knows; the answer comes when there is news for it, or after `wait_s`."""
    call, body = call_of(request), await read_body(request, BODY_LIMIT)
    loop = asyncio.get_running_loop()
    with call.services.nodes.watch(run_id) as changed:
        said, answer = await run_in_threadpool(_hear, call, run_id, rank, body)
        until = loop.time() + min(max(said.wait_s, 0.0), MAX_WAIT_S)
        while answer["version"] == said.since and loop.time() < until:
            try:
                await asyncio.wait_for(changed.wait(), until - loop.time())
            except (asyncio.TimeoutError, TimeoutError):
                break
            await asyncio.sleep(min(PAUSE_PER_NODE_S * len(answer["nodes"]), LONGEST_PAUSE_S))
            changed.clear()
            answer = await run_in_threadpool(look, call.services.engine.yard, run_id, said.attempt)
    return json_answer(answer)


def _hear(call: Call, run_id: str, rank: int, body: bytes) -> tuple[NodeWord, dict[str, Any]]:
    call.may("node", run_id)
    said = parse(NodeWord, body, lenient=True)
    principal = call.principal
    if isinstance(principal, RunPrincipal) and principal.attempt != said.attempt:
        raise NotAllowed(f"This token is of attempt {principal.attempt}; it cannot speak for {said.attempt}.")
    return said, hear_node(call.services.engine.yard, run_id, rank, said)
