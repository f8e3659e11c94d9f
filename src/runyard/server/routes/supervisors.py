"""What supervisors send: shipments, heartbeats, states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runyard.core.records import Run
from runyard.engine.runs.reports import StateReport
from runyard.server.access.permissions import RunPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import FRAMES_LIMIT, parse, parse_frames, read_body, with_json

router = APIRouter(prefix="/runs/{run_id}", tags=["supervisors"])


@dataclass(frozen=True)
class Heartbeat:
    attempt: int
    engine_gone: bool = False  # the process of the target's engine that started the supervisor is


@router.post("/ship")
async def ship(run_id: str, request: Request) -> Response:
    """Store journal bytes, side files and logs; the answer says how far each is stored."""
    body = await read_body(request, FRAMES_LIMIT)
    return await run_in_threadpool(_ship, call_of(request), run_id, body)


@router.post("/heartbeat")
@takes(Heartbeat)
async def heartbeat(run_id: str, request: Request) -> Response:
    """Say that the run's supervisor lives; hear what is wanted of the run."""
    return await with_json(request, lambda body: _heartbeat(call_of(request), run_id, body))


@router.post("/state")
@takes(StateReport)
async def report_state(run_id: str, request: Request) -> Response:
    """Report a phase or the end of the run."""
    return await with_json(request, lambda body: _report(call_of(request), run_id, body))


def _ship(call: Call, run_id: str, body: bytes) -> Response:
    call.may("ship", run_id)
    if isinstance(call.principal, RunPrincipal):
        attempt = call.principal.attempt
    else:
        attempt = call.services.store.get_run(run_id).attempt
    return json_answer(call.services.engine.ship(run_id, attempt, parse_frames(body)))


def _heartbeat(call: Call, run_id: str, body: bytes) -> Response:
    call.may("heartbeat", run_id)
    said = parse(Heartbeat, body, lenient=True)
    return _wish(call.services.engine.heartbeat(run_id, said.attempt, engine_gone=said.engine_gone))


def _report(call: Call, run_id: str, body: bytes) -> Response:
    call.may("state", run_id)
    return _wish(call.services.engine.report(run_id, parse(StateReport, body, lenient=True)))


def _wish(run: Run) -> Response:
    answer: dict[str, Any] = {
        "desired": run.desired,
        "desired_error": run.desired_error,
        "attempt": run.due_attempt,
        "status": run.status,
    }
    return json_answer(answer)
