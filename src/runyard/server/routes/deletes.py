"""Deleting runs and experiments, with time to restore them; and workspaces, for good."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from runyard.core.compute import ASSET_KIND as COMPUTE
from runyard.core.models import KIND as MODEL
from runyard.core.names import check_experiment_name, check_workspace_name
from runyard.server.access.vault import KIND as SECRET
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.routes import assets
from runyard.server.routes.experiments import owners_of

router = APIRouter(tags=["deletes"])
WORKSPACE_KINDS = (*assets.KINDS, MODEL, SECRET, COMPUTE)


@router.delete("/runs/{run_id}")
def delete_run(run_id: str, request: Request, now: bool = False) -> Response:
    """Delete a finished run and its child runs; they can be restored for a while, unless `now` is true."""
    call = call_of(request)
    call.may("delete_run", run_id)
    return json_answer(call.services.engine.delete_run(run_id, now=now))


@router.post("/runs/{run_id}/restore")
def restore_run(run_id: str, request: Request) -> Response:
    """Bring back a deleted run and what was deleted with it."""
    call = call_of(request)
    call.may("delete_run", run_id)
    return json_answer({"restored": call.services.engine.restore_run(run_id)})


@router.delete("/workspaces/{workspace}/experiments/{experiment}")
def delete_experiment(workspace: str, experiment: str, request: Request, now: bool = False) -> Response:
    """Delete an experiment and all its runs; they can be restored for a while, unless `now` is true."""
    call = call_of(request)
    names = check_workspace_name(workspace), check_experiment_name(experiment)
    call.may_change("delete_experiment", lambda: owners_of(call, *names, with_runs=True))
    return json_answer(call.services.engine.delete_experiment(*names, now=now))


@router.post("/workspaces/{workspace}/experiments/{experiment}/restore")
def restore_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Bring back a deleted experiment and the runs that were deleted with it."""
    call = call_of(request)
    names = check_workspace_name(workspace), check_experiment_name(experiment)
    call.may_change("delete_experiment", lambda: owners_of(call, *names, with_runs=True))
    return json_answer({"restored": call.services.engine.restore_experiment(*names)})


@router.delete("/workspaces/{workspace}")
def delete_workspace(workspace: str, request: Request) -> Response:
    """Delete a workspace with all that is in it, for good; 409 when one of its runs has not ended."""
    call = call_of(request)
    check_workspace_name(workspace)
    call.may_change("delete_workspace", lambda: _owners_of_all(call, workspace))
    return json_answer({"deleted": call.services.engine.delete_workspace(workspace)})


def _owners_of_all(call: Call, workspace: str) -> set[str | None]:
    """Return whose a workspace is, and all that would go with it."""
    store = call.services.store
    owners = {store.get_workspace(workspace).owner, *store.list_owners(workspace)}
    owners.update(one.owner for one in store.list_experiments(workspace, view="All"))
    for kind in WORKSPACE_KINDS:
        for asset in store.list_assets(workspace, kind):
            owners.update(version.owner for version in store.list_assets(workspace, kind, name=asset.name))
    return owners
