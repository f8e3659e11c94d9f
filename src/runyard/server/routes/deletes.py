"""Deleting runs, experiments and workspaces, for good."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from runyard.core.names import check_experiment_name, check_workspace_name
from runyard.server.answers import json_answer
from runyard.server.calls import call_of

router = APIRouter(tags=["deletes"])


@router.delete("/runs/{run_id}")
def delete_run(run_id: str, request: Request) -> Response:
    """Delete a finished run and its child runs; 409 when one has not ended."""
    call = call_of(request)
    call.may("delete_run", run_id)
    return json_answer({"deleted": call.services.engine.delete_run(run_id)})


@router.delete("/workspaces/{workspace}/experiments/{experiment}")
def delete_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Delete an experiment and all its runs; 409 when one has not ended."""
    call = call_of(request)
    call.may("delete_experiment")
    names = check_workspace_name(workspace), check_experiment_name(experiment)
    return json_answer({"deleted": call.services.engine.delete_experiment(*names)})


@router.delete("/workspaces/{workspace}")
def delete_workspace(workspace: str, request: Request) -> Response:
    """Delete a workspace with all that is in it; 409 when one of its runs has not ended."""
    call = call_of(request)
    call.may("delete_workspace")
    return json_answer({"deleted": call.services.engine.delete_workspace(check_workspace_name(workspace))})
