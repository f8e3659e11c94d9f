"""Routes of workspaces and experiments, of deletion, of the studio's table of runs, and of sweeps.

A workspace is made on first use. Deleted runs and experiments can be restored for a while; a workspace is deleted for
good. The table of runs gives windows at any place, its columns, and groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.compute import ASSET_KIND as COMPUTE
from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import fitting
from runyard.core.names import check_experiment_name, check_run_id, check_title, check_workspace_name, make_uuid
from runyard.core.records import KIND as MODEL
from runyard.core.records import LOGGED_MODEL, MODEL_NAME, Experiment, Workspace
from runyard.core.webservices import KIND as SERVICE
from runyard.engine.deletes import Deleted
from runyard.engine.sweeps.report import SweepFacts
from runyard.server.access.permissions import RunPrincipal
from runyard.server.access.vault import KIND as SECRET
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import gives, reads, takes
from runyard.server.http.requests import (
    BY,
    COLUMN,
    OF_RUNS,
    OF_RUNS_SORTED,
    OFFSET,
    fields_of,
    offset_of,
    parse,
    run_query,
    with_json,
)
from runyard.server.routes import assets
from runyard.store.base import RunTable, Tally

router = APIRouter(tags=["workspaces"])
VIEWS = ("ActiveOnly", "ArchivedOnly", "All", "DeletedOnly")
WORKSPACE_KINDS = (*assets.KINDS, MODEL, MODEL_NAME, LOGGED_MODEL, SECRET, COMPUTE, SERVICE)
MAX_ROWS = 500
MAX_COLUMNS = 50


@dataclass(frozen=True)
class WorkspaceBody:
    subscription_id: str = ""
    resource_group: str = ""
    location: str = ""
    tags: dict[str, str] = field(default_factory=dict)


@router.get("/workspaces")
@gives(list[Workspace])
def list_workspaces(request: Request) -> Response:
    """List all workspaces; to a run's code, its own."""
    call = call_of(request)
    own = call.principal.workspace if isinstance(call.principal, RunPrincipal) else None
    call.require("read_workspace", workspace=own)
    return json_answer([found for found in call.services.store.list_workspaces() if own in (None, found.name)])


@router.get("/workspaces/{workspace}")
@gives(Workspace)
def get_workspace(workspace: str, request: Request) -> Response:
    """Return one workspace."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    return json_answer(call.services.store.get_workspace(check_workspace_name(workspace)))


@router.put("/workspaces/{workspace}")
@gives(Workspace)
@takes(WorkspaceBody)
async def put_workspace(workspace: str, request: Request) -> Response:
    """Return the workspace of that name, made when there is none."""
    return await with_json(request, lambda body: _put_workspace(call_of(request), workspace, body))


def _put_workspace(call: RequestContext, name: str, body: bytes) -> Response:
    store = call.services.store
    call.may_make(
        "put_workspace", workspace=name, is_there=lambda: name in [one.name for one in store.list_workspaces()]
    )
    wanted = parse(WorkspaceBody, body or b"{}")
    workspace = Workspace(
        id=make_uuid(),
        name=check_workspace_name(name),
        created_at=datetime.now(timezone.utc),
        subscription_id=wanted.subscription_id,
        resource_group=wanted.resource_group,
        location=wanted.location,
        tags=wanted.tags,
        owner=call.user,
    )
    return json_answer(store.put_workspace(workspace))


@dataclass(frozen=True)
class ExperimentChange:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    archived: Optional[bool] = None
    tags_set: Optional[dict[str, Optional[str]]] = None
    tags_remove: list[str] = field(default_factory=list)
    title: Optional[str] = None


@router.get("/workspaces/{workspace}/experiments")
@gives(list[Experiment])
def list_experiments(
    workspace: str, request: Request, view: str = "ActiveOnly", name: Optional[str] = None
) -> Response:
    """List experiments; `view` is ActiveOnly, ArchivedOnly, All or DeletedOnly."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    if view not in VIEWS:
        raise InvalidArgument(f"There is no view {view[:40]!r}.", hint=f"Known: {', '.join(VIEWS)}.")
    wanted = None if name is None else check_experiment_name(name)
    return json_answer(call.services.store.list_experiments(check_workspace_name(workspace), view=view, name=wanted))


@router.get("/workspaces/{workspace}/experiments/{experiment:asset}")
@gives(Experiment)
def get_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Return one experiment."""
    call = call_of(request)
    call.require("read_workspace", workspace=workspace)
    return json_answer(call.services.store.get_experiment(*_checked(workspace, experiment)))


@router.put("/workspaces/{workspace}/experiments/{experiment:asset}")
@gives(Experiment)
def put_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Return the experiment of that name, made when there is none."""
    call = call_of(request)
    store, place = call.services.store, _checked(workspace, experiment)
    call.may_make(
        "put_experiment",
        workspace=workspace,
        is_there=lambda: bool(store.list_experiments(place[0], view="All", name=place[1])),
    )
    return json_answer(store.put_experiment(*place, owner=call.user))


@router.patch("/workspaces/{workspace}/experiments/{experiment:asset}")
@gives(Experiment)
@takes(ExperimentChange)
async def update_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Archive or reactivate an experiment, change its title and tags."""
    return await with_json(request, lambda body: _update(call_of(request), workspace, experiment, body))


def _update(call: RequestContext, workspace: str, experiment: str, body: bytes) -> Response:
    place = _checked(workspace, experiment)
    call.require_change("update_experiment", lambda: owners_of(call, *place, with_runs=False))
    change = parse(ExperimentChange, body)
    return json_answer(
        call.services.store.update_experiment(
            *place,
            archived=change.archived,
            tags_set=change.tags_set,
            tags_remove=change.tags_remove,
            title=None if change.title is None else check_title(change.title),
        )
    )


def owners_of(call: RequestContext, workspace: str, experiment: str, *, with_runs: bool) -> set[str | None]:
    """Return whose an experiment is, deleted or not, and its runs. Of one that records no owner, its runs tell."""
    store = call.services.store
    found = [
        *store.list_experiments(workspace, view="All", name=experiment),
        *store.list_experiments(workspace, view="DeletedOnly", name=experiment),
    ]
    owners: set[str | None] = {one.owner for one in found if one.owner is not None}
    if with_runs or not owners:
        owners.update(store.list_owners(workspace, experiment=experiment))
    return owners if owners or not found else {None}


def _checked(workspace: str, experiment: str) -> tuple[str, str]:
    return check_workspace_name(workspace), check_experiment_name(experiment)


@dataclass(frozen=True)
class DeletedRuns:
    deleted: list[str]  # run ids


@dataclass(frozen=True)
class RestoredAnswer:
    restored: list[str]  # run ids


@router.delete("/runs/{run_id}")
@gives(Deleted)
def delete_run(run_id: str, request: Request, now: bool = False) -> Response:
    """Delete a finished run and its child runs; they can be restored for a while, unless `now` is true."""
    call = call_of(request)
    call.require("delete_run", run_id)
    return json_answer(call.services.engine.delete_run(run_id, now=now))


@router.post("/runs/{run_id}/restore")
@gives(RestoredAnswer)
def restore_run(run_id: str, request: Request) -> Response:
    """Bring back a deleted run and what was deleted with it."""
    call = call_of(request)
    call.require("delete_run", run_id)
    return json_answer(RestoredAnswer(call.services.engine.restore_run(run_id)))


@router.delete("/workspaces/{workspace}/experiments/{experiment:asset}")
@gives(Deleted)
def delete_experiment(workspace: str, experiment: str, request: Request, now: bool = False) -> Response:
    """Delete an experiment and all its runs; they can be restored for a while, unless `now` is true."""
    call = call_of(request)
    names = check_workspace_name(workspace), check_experiment_name(experiment)
    call.require_change("delete_experiment", lambda: owners_of(call, *names, with_runs=True))
    return json_answer(call.services.engine.delete_experiment(*names, now=now))


@router.post("/workspaces/{workspace}/experiments/{experiment:asset}/restore")
@gives(RestoredAnswer)
def restore_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Bring back a deleted experiment and the runs that were deleted with it."""
    call = call_of(request)
    names = check_workspace_name(workspace), check_experiment_name(experiment)
    call.require_change("delete_experiment", lambda: owners_of(call, *names, with_runs=True))
    return json_answer(RestoredAnswer(call.services.engine.restore_experiment(*names)))


@router.delete("/workspaces/{workspace}")
@gives(DeletedRuns)
def delete_workspace(workspace: str, request: Request) -> Response:
    """Delete a workspace with all that is in it, for good; 409 when one of its runs has not ended."""
    call = call_of(request)
    check_workspace_name(workspace)
    call.require_change("delete_workspace", lambda: _owners_of_all(call, workspace))
    return json_answer(DeletedRuns(call.services.engine.delete_workspace(workspace)))


def _owners_of_all(call: RequestContext, workspace: str) -> set[str | None]:
    """Return whose a workspace is, and all that would go with it."""
    store = call.services.store
    owners = {store.get_workspace(workspace).owner, *store.list_owners(workspace)}
    owners.update(one.owner for one in store.list_experiments(workspace, view="All"))
    for kind in WORKSPACE_KINDS:
        for asset in store.list_assets(workspace, kind):
            owners.update(version.owner for version in store.list_assets(workspace, kind, name=asset.name))
    return owners


@router.get("/workspaces/{workspace}/table")
@gives(RunTable)
@reads(*OF_RUNS_SORTED, OFFSET, COLUMN)
def read_table(workspace: str, request: Request) -> Response:
    """Return rows from `offset` on, sorted by any field, with a value for each `column`, and the count of all."""
    call, params = call_of(request), request.query_params
    query = run_query(
        check_workspace_name(workspace), params, also=("sort", "offset", "column"), most=MAX_ROWS, order="sort"
    )
    columns = fields_of(params, "column", most=MAX_COLUMNS)
    offset = offset_of(params)
    call.require("list_runs", query.parent_id)
    return json_answer(call.services.store.read_table(query, columns=columns, offset=offset))


@dataclass(frozen=True)
class FoundColumn:
    """A field that `runs` of the runs have."""

    field: str
    key: str
    runs: int


@dataclass(frozen=True)
class FoundColumns:
    columns: list[FoundColumn]
    of_runs: int


@dataclass(frozen=True)
class RunGroup:
    """`filter` asks for the group's runs."""

    value: Any
    count: int
    filter: Optional[str]


@dataclass(frozen=True)
class RunGroups:
    groups: list[RunGroup]
    total: int


@router.get("/workspaces/{workspace}/columns")
@gives(FoundColumns)
@reads(*OF_RUNS)
def list_columns(workspace: str, request: Request) -> Response:
    """List metrics, parameters, tags and properties of the newest runs that fit, most used first."""
    call = call_of(request)
    query = run_query(check_workspace_name(workspace), request.query_params)
    call.require("list_runs", query.parent_id)
    columns, looked_at = call.services.store.list_columns(query)
    found = [FoundColumn(column.field.name, column.field.key, column.runs) for column in columns]
    return json_answer(FoundColumns(found, looked_at))


@router.get("/workspaces/{workspace}/groups")
@gives(RunGroups)
@reads(*OF_RUNS, BY)
def group_runs(workspace: str, request: Request) -> Response:
    """Count the runs that fit by the value of a field; `filter` of each group asks for its runs."""
    call, params = call_of(request), request.query_params
    query = run_query(check_workspace_name(workspace), params, also=("by",))
    by = fields_of(params, "by", most=1)
    if not by:
        raise InvalidArgument("The parameter `by` is missing.", hint="Name a field, such as by=status.")
    call.require("list_runs", query.parent_id)
    found = call.services.store.group_runs(query, by[0])
    groups = [RunGroup(group.value, group.count, fitting(by[0], group.value)) for group in found.groups]
    return json_answer(RunGroups(groups, found.total))


@router.get("/workspaces/{workspace}/tally")
@gives(list[Tally])
@reads(*OF_RUNS)
def count_by_experiment(workspace: str, request: Request) -> Response:
    """Count the runs that fit by experiment and status; `last` is each experiment's newest."""
    call = call_of(request)
    query = run_query(check_workspace_name(workspace), request.query_params)
    call.require("list_runs", query.parent_id)
    return json_answer(call.services.store.count_by_experiment(query))


@router.get("/runs/{run_id}/sweep")
@gives(SweepFacts)
def show_sweep(run_id: str, request: Request) -> Response:
    """Return a sweep with its children, best first found and stopped ones with the reason."""
    call = call_of(request)
    call.require("read_run", check_run_id(run_id))
    return json_answer(call.services.engine.show_sweep(run_id))
