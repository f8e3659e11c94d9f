"""Sweeps: what became of their children, and why."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from runyard.core.names import check_run_id
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import call_of

router = APIRouter(tags=["sweeps"])


@router.get("/runs/{run_id}/sweep")
def show_sweep(run_id: str, request: Request) -> Response:
    """Return a sweep with its children, best first found and stopped ones with the reason."""
    call = call_of(request)
    call.may("read_run", check_run_id(run_id))
    return json_answer(call.services.engine.show_sweep(run_id))
