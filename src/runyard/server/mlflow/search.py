"""Searches of runs and experiments. A page token is an offset, as MLflow's own server makes them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence

from runyard.core.errors import NotAllowed
from runyard.core.formats.filters import PRESENT, Comparison, Field
from runyard.core.records import Experiment
from runyard.core.statuses import RunStatus
from runyard.server.access.permissions import RunPrincipal
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import (
    DEFAULT_ID,
    DEFAULT_NAME,
    RUN_ARTIFACTS,
    experiment_json,
    run_json,
    status_word,
)
from runyard.server.mlflow.errors import MlflowError
from runyard.server.mlflow.experiments import experiment_of, list_shown
from runyard.server.mlflow.filters import (
    ATTRIBUTE,
    DATASET,
    EXPERIMENTS,
    MAX_ORDERS,
    METRIC,
    PARAM,
    RUNS,
    TAG,
    Clause,
    Grammar,
    OrderBy,
    fits,
    parse_clauses,
    parse_order,
)
from runyard.server.mlflow.requests import Fields
from runyard.store.base import RunSearch, SearchOrder

DEFAULT_RUNS = 1000
MOST_RESULTS = 50_000
_LAST_OFFSET = 1 << 53
_MOST_RELATIVES = 30_000  # values of one statement
_NUMBER = "number"  # of an experiment, in the order in which they were made
_RUN_VIEWS = {"ACTIVE_ONLY": "active", "DELETED_ONLY": "archived", "ALL": "all"}
_EXPERIMENT_VIEWS = {"ACTIVE_ONLY": "ActiveOnly", "DELETED_ONLY": "ArchivedOnly", "ALL": "All"}
_VIEW_NUMBERS = {"1": "ACTIVE_ONLY", "2": "DELETED_ONLY", "3": "ALL"}
_KINDS = {METRIC: "metrics", PARAM: "params", TAG: "tags", DATASET: "datasets"}
_ATTRIBUTES = {
    "run_id": "id",
    "run_name": "name",
    "user_id": "user",
    "status": "status",
    "start_time": "start",
    "end_time": "end",
    "artifact_uri": "id",
}
# Tags that a run's own fields are shown as.
_SYSTEM_TAGS = {
    "mlflow.runName": "name",
    "mlflow.note.content": "note",
    "mlflow.user": "user",
    "mlflow.parentRunId": "parent",
}
_WORDS = sorted({status_word(status) for status in RunStatus})


@endpoint("POST", "mlflow/runs/search", "list_runs", "read_run", "read_workspace", "put_workspace")
def search_runs(call: Call) -> Document:
    """Return a page of the runs of some experiments; to a run's code, of those among its relatives."""
    relatives = _relatives(call)
    limit = max_results(call.fields, DEFAULT_RUNS)
    clauses = parse_clauses(call.fields.text("filter", ""), RUNS)
    orders = orders_of(call.fields, RUNS)
    offset = offset_of(call.fields.text("page_token", ""))
    if len({(order.kind, order.key) for order in orders}) < len(orders):
        raise MlflowError(f"`order_by` contains duplicate fields: {call.fields.texts('order_by')}")
    search = RunSearch(
        call.workspace,
        _experiments(call, call.fields.texts("experiment_ids")),
        [*(_condition(clause) for clause in clauses), *relatives],
        view=_RUN_VIEWS[view_of(call.fields, "run_view_type")],
        orders=[_search_order(order) for order in orders],
        offset=offset,
        limit=limit + 1,
    )
    runs = call.store.search_runs(search)
    metrics = call.store.summarize_metrics([run.id for run in runs[:limit]])
    archived: set[str] = set()
    if search.view != "active":
        archived = {found.id for found in call.store.list_experiments(call.workspace, view="ArchivedOnly")}
    rows = [run_json(run, metrics.get(run.id, {}), archived=run.experiment_id in archived) for run in runs[:limit]]
    return page_of("runs", rows, len(runs), offset, limit)


@endpoint("GET POST", "mlflow/experiments/search", "read_workspace", "put_workspace")
def search_experiments(call: Call) -> Document:
    """Return a page of the workspace's experiments."""
    call.require("read_workspace")
    limit = max_results(call.fields, DEFAULT_RUNS)
    clauses = parse_clauses(call.fields.text("filter", ""), EXPERIMENTS)
    orders = orders_of(call.fields, EXPERIMENTS)
    for order in orders:
        if order.kind != ATTRIBUTE:
            raise MlflowError(f"Invalid order_by entity: {order.kind}")
    offset = offset_of(call.fields.text("page_token", ""))
    view = _EXPERIMENT_VIEWS[view_of(call.fields, "view_type")]
    shown = list_shown(call, view)
    shown.sort(key=lambda one: (one.name != DEFAULT_NAME, one.created_at, one.id))
    found: list[tuple[Document, Experiment]] = [
        ({**experiment_json(experiment), _NUMBER: number}, experiment) for number, experiment in enumerate(shown)
    ]
    rows = [row for row, experiment in found if all(_experiment_fits(clause, row, experiment) for clause in clauses)]
    rows = sorted_rows(rows, _experiment_orders(orders))[offset : offset + limit + 1]
    page = [{key: value for key, value in row.items() if key != _NUMBER} for row in rows[:limit]]
    return page_of("experiments", page, len(rows), offset, limit)


def orders_of(fields: Fields, grammar: Grammar) -> list[OrderBy]:
    """Return the keys of a request's order."""
    texts = fields.texts("order_by")
    if len(texts) > MAX_ORDERS:
        raise MlflowError(f"`order_by` has {len(texts)} fields; {MAX_ORDERS} is the most.")
    return [parse_order(text, grammar) for text in texts]


def sorted_rows(rows: list[Document], orders: Sequence[OrderBy]) -> list[Document]:
    """Return JSON objects by their fields; those without a field last."""
    for order in reversed(orders):
        having = [row for row in rows if row.get(order.key) is not None]
        having.sort(key=lambda row: row[order.key], reverse=not order.ascending)
        rows = having + [row for row in rows if row.get(order.key) is None]
    return rows


def page_of(name: str, rows: Sequence[object], found: int, offset: int, limit: int) -> Document:
    """Return a page of rows; `found` counts one more than `limit` where another page follows."""
    answer: Document = {name: rows} if rows else {}
    if found <= limit:
        return answer
    token = base64.b64encode(json.dumps({"offset": offset + limit}).encode()).decode()
    return {**answer, "next_page_token": token}


def offset_of(token: str) -> int:
    """Return where the page of a token begins; an empty token is the first page.

    Raises:
        MlflowError: it is not one of ours.
    """
    if not token:
        return 0
    try:
        decoded = base64.b64decode(token)
    except (binascii.Error, ValueError):
        raise MlflowError("Invalid page token, could not base64-decode") from None
    try:
        parsed = json.loads(decoded)
    except (ValueError, RecursionError):
        raise MlflowError(f"Invalid page token, decoded value={decoded[:100]!r}") from None
    offset = parsed.get("offset") if isinstance(parsed, dict) else None
    if not isinstance(offset, int) or not 0 < offset < _LAST_OFFSET:
        raise MlflowError(f"Invalid page token, parsed value={str(parsed)[:100]}")
    return offset


def max_results(fields: Fields, default: int, most: int = MOST_RESULTS) -> int:
    """Return how many records a page may have."""
    wanted = fields.integer("max_results", default)
    if wanted < 1:
        raise MlflowError(f"Invalid value {wanted} for parameter 'max_results' supplied. It must be a positive integer")
    if wanted > most:
        raise MlflowError(f"Invalid value {wanted} for parameter 'max_results' supplied. It must be at most {most}")
    return wanted


def view_of(fields: Fields, name: str) -> str:
    """Return ACTIVE_ONLY, DELETED_ONLY or ALL, which may come as a number."""
    value = str(fields.value(name) or "ACTIVE_ONLY")
    value = _VIEW_NUMBERS.get(value, value)
    if value not in _RUN_VIEWS:
        raise MlflowError(f"Invalid value {value[:100]!r} for parameter '{name}' supplied.")
    return value


def _relatives(call: Call) -> list[Comparison]:
    """Return the condition that narrows a search to what the principal may read: none but for the code of a run."""
    principal = call.context.principal
    if not isinstance(principal, RunPrincipal):
        call.require("list_runs")
        return []
    run = call.run("read_run", principal.run_id)
    ids = call.store.list_family(run.id)
    try:
        call.require("read_run", run.root_id)
        ids = call.store.list_family(run.root_id)
    except NotAllowed:
        pass  # it has ended: what is below it is left
    if len(ids) > _MOST_RELATIVES:
        raise MlflowError(
            f"Run {run.id} has {len(ids):,} relatives, more than {_MOST_RELATIVES:,}: search outside of the run."
        )
    return [Comparison("id", "in", tuple(ids))]


def _experiments(call: Call, ids: Sequence[str]) -> list[str]:
    """Return the ids that our records have."""
    if DEFAULT_ID not in ids:
        return list(dict.fromkeys(ids))
    return list(dict.fromkeys([experiment_of(call, DEFAULT_ID).id, *ids]))


def _condition(clause: Clause) -> Comparison:
    operators = {"IS NULL": "absent", "IS NOT NULL": PRESENT}
    field, value = _field(clause.kind, clause.key), clause.value
    if field.name == "status":
        statuses = tuple(status.value for status in RunStatus if fits(clause, status_word(status)))
        return Comparison("status", "in", statuses)
    if isinstance(value, int):
        value = float(value)
    return Comparison(field.name, operators.get(clause.op, clause.op.lower()), value, field.key)


def _search_order(order: OrderBy) -> SearchOrder:
    field = _field(order.kind, order.key)
    if field.name != "status":
        return SearchOrder(field, not order.ascending)
    groups = [[status.value for status in RunStatus if status_word(status) == word] for word in _WORDS]
    return SearchOrder(field, not order.ascending, groups)


def _field(kind: str, key: str) -> Field:
    if kind == ATTRIBUTE:
        return Field(_ATTRIBUTES[key], RUN_ARTIFACTS if key == "artifact_uri" else "")
    if kind == TAG and key in _SYSTEM_TAGS:
        return Field(_SYSTEM_TAGS[key])
    return Field(_KINDS[kind], key)


def _experiment_fits(clause: Clause, row: Document, experiment: Experiment) -> bool:
    if clause.kind == TAG:
        value = (experiment.tags[clause.key] or "") if clause.key in experiment.tags else None
        return fits(clause, value)
    if clause.key == "experiment_id" and clause.op in ("LIKE", "ILIKE"):
        raise MlflowError(f"Invalid comparator for experiment_id: {clause.op}")
    if isinstance(clause.value, float):
        raise MlflowError(f"Invalid value for numeric attribute '{clause.key}': '{clause.value}'")
    return fits(clause, row[clause.key])


def _experiment_orders(orders: Sequence[OrderBy]) -> list[OrderBy]:
    """Return the keys of an order. Ids of MLflow's server are numbers that count up, ours are put in that order."""
    if not orders:
        return [OrderBy(ATTRIBUTE, "creation_time", False), OrderBy(ATTRIBUTE, _NUMBER)]
    keys = [OrderBy(ATTRIBUTE, _NUMBER, order.ascending) if order.key == "experiment_id" else order for order in orders]
    return keys if any(order.key == _NUMBER for order in keys) else [*keys, OrderBy(ATTRIBUTE, _NUMBER, False)]
