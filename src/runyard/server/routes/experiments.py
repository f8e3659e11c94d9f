"""Experiments of a workspace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument
from runyard.core.names import check_experiment_name, check_workspace_name
from runyard.core.records import Experiment
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import gives, takes
from runyard.server.http.requests import parse, with_json

router = APIRouter(prefix="/workspaces/{workspace}/experiments", tags=["experiments"])
VIEWS = ("ActiveOnly", "ArchivedOnly", "All", "DeletedOnly")


@dataclass(frozen=True)
class ExperimentChange:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    archived: Optional[bool] = None
    tags_set: Optional[dict[str, Optional[str]]] = None
    tags_remove: list[str] = field(default_factory=list)


@router.get("")
@gives(list[Experiment])
def list_experiments(
    workspace: str, request: Request, view: str = "ActiveOnly", name: Optional[str] = None
) -> Response:
    """List experiments; `view` is ActiveOnly, ArchivedOnly, All or DeletedOnly."""
    call = call_of(request)
    call.may("read_workspace", workspace=workspace)
    if view not in VIEWS:
        raise InvalidArgument(f"There is no view {view[:40]!r}.", hint=f"Known: {', '.join(VIEWS)}.")
    wanted = None if name is None else check_experiment_name(name)
    return json_answer(call.services.store.list_experiments(check_workspace_name(workspace), view=view, name=wanted))


@router.get("/{experiment}")
def get_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Return one experiment."""
    call = call_of(request)
    call.may("read_workspace", workspace=workspace)
    return json_answer(call.services.store.get_experiment(*_checked(workspace, experiment)))


@router.put("/{experiment}")
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


@router.patch("/{experiment}")
@takes(ExperimentChange)
async def update_experiment(workspace: str, experiment: str, request: Request) -> Response:
    """Archive or reactivate an experiment, change its tags."""
    return await with_json(request, lambda body: _update(call_of(request), workspace, experiment, body))


def _update(call: Call, workspace: str, experiment: str, body: bytes) -> Response:
    place = _checked(workspace, experiment)
    call.may_change("update_experiment", lambda: owners_of(call, *place, with_runs=False))
    change = parse(ExperimentChange, body)
    return json_answer(
        call.services.store.update_experiment(
            *place,
            archived=change.archived,
            tags_set=change.tags_set,
            tags_remove=change.tags_remove,
        )
    )


def owners_of(call: Call, workspace: str, experiment: str, *, with_runs: bool) -> set[str | None]:
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
