"""What a submit would do, for `runyard submit --dry-run`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from runyard.server.answers import json_answer
from runyard.server.bodies import parse, with_json
from runyard.server.calls import Call, call_of
from runyard.server.openapi import takes
from runyard.server.routes.runs import RunRequest

router = APIRouter(tags=["runs"])


@router.post("/runs/plan")
@takes(RunRequest)
async def plan_run(request: Request) -> Response:
    """Say what `POST /runs` with this body would start; nothing is stored."""
    return await with_json(request, lambda body: _plan(call_of(request), body))


def _plan(call: Call, body: bytes) -> Response:
    call.may("plan_run")
    wanted = parse(RunRequest, body, unchecked=["submitter"])
    return json_answer(call.services.engine.plan(wanted.run, submitter=wanted.submitter))
