"""What a submit would do, for `runyard submit --dry-run`, and what one did, for `runyard runs show --plan`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from runyard.core.names import check_run_id
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, with_json
from runyard.server.routes.runs import RunRequest, check_target

router = APIRouter(tags=["runs"])


@router.post("/runs/plan")
@takes(RunRequest)
async def plan_run(request: Request) -> Response:
    """Say what `POST /runs` with this body would start; nothing is stored."""
    return await with_json(request, lambda body: _plan(call_of(request), body))


@router.get("/runs/{run_id}/plan")
def get_plan(run_id: str, request: Request) -> Response:
    """Say what the run's target was given for its present attempt; secrets are hidden."""
    call = call_of(request)
    call.may("read_run", run_id)
    return json_answer(call.services.engine.plan_of(call.services.store.get_run(check_run_id(run_id))))


def _plan(call: Call, body: bytes) -> Response:
    call.may("plan_run")
    wanted = parse(RunRequest, body, unchecked=["submitter"])
    check_target(call, wanted.run.workspace, wanted.run.spec.target)
    return json_answer(call.services.engine.plan(wanted.run, submitter=wanted.submitter))
