"""The stream of an open page: it names the runs that changed, and the page reads them again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Hashable
from typing import Annotated, Any, Optional

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

import runyard
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_workspace_name
from runyard.server.access.shares import holder_of
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import EVENTS, sends
from runyard.server.live import Listener
from runyard.server.services import Services

router = APIRouter(prefix="/events", tags=["events"])
MOST_RUNS = 60
HEARTBEAT_S = 15.0
PAUSE_S = 0.2  # between two tellings: a run that logs a thousand points a second is told of five times
LIST_PAUSE_S = 1.0


@router.get("")
@sends(EVENTS)
async def stream_events(
    request: Request,
    run: Annotated[Optional[list[str]], Query()] = None,
    workspace: Optional[str] = None,
) -> Response:
    """Server-sent events: `hello`, then `run` for runs named and `runs` for the workspace, whenever they change."""
    call, run_ids = call_of(request), run or []
    await run_in_threadpool(_check, call, run_ids, workspace)
    holder = holder_of(call.principal)
    call.services.news.make_room(holder)
    headers = {"X-Accel-Buffering": "no"}  # nginx would keep events back
    stream = _stream(call.services, run_ids, workspace, holder)
    return StreamingResponse(stream, headers=headers, media_type="text/event-stream")


def _check(call: RequestContext, run_ids: list[str], workspace: str | None) -> None:
    if not run_ids and workspace is None:
        raise InvalidArgument("There is nothing to watch.", hint="Name runs (`run=ID`, repeated), or a `workspace`.")
    if len(run_ids) > MOST_RUNS:
        raise InvalidArgument(f"A stream watches at most {MOST_RUNS} runs, found {len(run_ids)}.")
    for run_id in run_ids:
        call.require("read_run", run_id)
    if workspace is not None:
        check_workspace_name(workspace)
        call.require("list_runs")


async def _stream(
    services: Services, run_ids: list[str], workspace: str | None, holder: Hashable
) -> AsyncIterator[str]:
    hello = {"server": services.server_id, "version": runyard.__version__, "started_at": str(services.started_at)}
    with services.news.listen(run_ids, workspace, holder=holder) as listener:
        # Sent while listening: a client that reads after it misses nothing.
        yield _event("hello", **hello)
        async for text in _tell(listener, workspace):
            yield text


async def _tell(listener: Listener, workspace: str | None) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    list_due = loop.time()
    while not listener.is_over:
        patience = HEARTBEAT_S
        if listener.has_runs:
            patience = max(0.0, list_due - loop.time())
        try:
            await asyncio.wait_for(listener.changed.wait(), patience)
        except (asyncio.TimeoutError, TimeoutError):
            if not listener.has_runs:
                yield ": still here\n\n"
        for run_id, what in listener.take().items():
            yield _event("run", run=run_id, what=sorted(what))
        if listener.has_runs and loop.time() >= list_due:
            listener.has_runs = False
            list_due = loop.time() + LIST_PAUSE_S
            yield _event("runs", workspace=workspace)
        if not listener.is_over:
            await asyncio.sleep(PAUSE_S)


def _event(name: str, **data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
