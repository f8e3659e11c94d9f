"""The table of runs that the studio shows: windows of it at any place, what columns there are, groups."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import fitting
from runyard.core.names import check_workspace_name
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import call_of
from runyard.server.http.openapi import gives
from runyard.server.http.queries import fields_of, offset_of, run_query
from runyard.store.base import RunTable, Tally

router = APIRouter(tags=["runs"])
MAX_ROWS = 500
MAX_COLUMNS = 50


@router.get("/workspaces/{workspace}/table")
@gives(RunTable)
def read_table(workspace: str, request: Request) -> Response:
    """Return rows from `offset` on, sorted by any field, with a value for each `column`, and the count of all."""
    call, params = call_of(request), request.query_params
    query = run_query(
        check_workspace_name(workspace), params, also=("sort", "offset", "column"), most=MAX_ROWS, order="sort"
    )
    columns = fields_of(params, "column", most=MAX_COLUMNS)
    offset = offset_of(params)
    call.may("list_runs", query.parent_id)
    return json_answer(call.services.store.read_table(query, columns=columns, offset=offset))


@router.get("/workspaces/{workspace}/columns")
def list_columns(workspace: str, request: Request) -> Response:
    """List metrics, parameters, tags and properties of the newest runs that fit, most used first."""
    call = call_of(request)
    query = run_query(check_workspace_name(workspace), request.query_params)
    call.may("list_runs", query.parent_id)
    columns, looked_at = call.services.store.list_columns(query)
    found = [{"field": column.field.name, "key": column.field.key, "runs": column.runs} for column in columns]
    return json_answer({"columns": found, "of_runs": looked_at})


@router.get("/workspaces/{workspace}/groups")
def group_runs(workspace: str, request: Request) -> Response:
    """Count the runs that fit by the value of a field; `filter` of each group asks for its runs."""
    call, params = call_of(request), request.query_params
    query = run_query(check_workspace_name(workspace), params, also=("by",))
    by = fields_of(params, "by", most=1)
    if not by:
        raise InvalidArgument("The parameter `by` is missing.", hint="Name a field, such as by=status.")
    call.may("list_runs", query.parent_id)
    found = call.services.store.group_runs(query, by[0])
    groups = [
        {"value": group.value, "count": group.count, "filter": fitting(by[0], group.value)} for group in found.groups
    ]
    return json_answer({"groups": groups, "total": found.total})


@router.get("/workspaces/{workspace}/tally")
@gives(list[Tally])
def count_by_experiment(workspace: str, request: Request) -> Response:
    """Count the runs that fit by experiment and status; `last` is each experiment's newest."""
    call = call_of(request)
    query = run_query(check_workspace_name(workspace), request.query_params)
    call.may("list_runs", query.parent_id)
    return json_answer(call.services.store.count_by_experiment(query))
