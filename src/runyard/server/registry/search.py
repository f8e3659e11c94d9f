"""Searches of registered models and of model versions. Prompts of MLflow are found only by those who ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from runyard.core.formats.plain import from_plain
from runyard.core.records import Asset, ModelSpec
from runyard.server.http.model_files import PROMPT_TAG, is_prompt
from runyard.server.mlflow.endpoints import Call, Document, endpoint
from runyard.server.mlflow.entities import milliseconds
from runyard.server.mlflow.errors import MlflowError
from runyard.server.mlflow.filters import (
    ATTRIBUTE,
    MODEL_VERSIONS,
    REGISTERED_MODELS,
    TAG,
    Clause,
    Grammar,
    OrderBy,
    fits,
    parse_clauses,
)
from runyard.server.mlflow.search import max_results, offset_of, orders_of, page_of, sorted_rows
from runyard.server.registry.records import (
    READ,
    Registered,
    list_registered,
    registered_json,
    source_of,
    version_json,
)

DEFAULT_MODELS, MOST_MODELS = 100, 1000
DEFAULT_VERSIONS, MOST_VERSIONS = 10_000, 200_000
_NEWEST = OrderBy(ATTRIBUTE, "last_updated_timestamp", False)
_BY_NAME, _BY_NUMBER = OrderBy(ATTRIBUTE, "name"), OrderBy(ATTRIBUTE, "version_number", False)


@endpoint("GET", "mlflow/registered-models/search", *READ)
def search_registered_models(call: Call) -> Document:
    """Return a page of the workspace's registered models."""
    call.require("read_workspace")
    limit = max_results(call.fields, DEFAULT_MODELS, MOST_MODELS)
    clauses, asks_prompts = _clauses(call, REGISTERED_MODELS)
    orders = _orders(call, REGISTERED_MODELS)
    offset = offset_of(call.fields.text("page_token", ""))
    rows: list[Document] = []
    for found in list_registered(call):
        tags = found.about.tags
        if not asks_prompts and tags.get(PROMPT_TAG) == "true":
            continue
        row: Document = {
            "name": found.name,
            "creation_timestamp": found.created_ms,
            "last_updated_timestamp": found.updated_ms,
            "found": found,
        }
        if all(fits(clause, tags.get(clause.key) if clause.kind == TAG else row[clause.key]) for clause in clauses):
            rows.append(row)
    rows = sorted_rows(rows, _completed(orders, [_BY_NAME]))[offset : offset + limit + 1]
    shown: list[Registered] = [row["found"] for row in rows[:limit]]
    return page_of("registered_models", [registered_json(call, one) for one in shown], len(rows), offset, limit)


@endpoint("GET", "mlflow/model-versions/search", *READ)
def search_model_versions(call: Call) -> Document:
    """Return a page of versions of all registered models."""
    call.require("read_workspace")
    limit = max_results(call.fields, DEFAULT_VERSIONS, MOST_VERSIONS)
    clauses, asks_prompts = _clauses(call, MODEL_VERSIONS)
    orders = _orders(call, MODEL_VERSIONS) or [_NEWEST, _BY_NAME, _BY_NUMBER]
    offset = offset_of(call.fields.text("page_token", ""))
    for clause in clauses:
        if isinstance(clause.value, float):
            raise MlflowError(f"Invalid value for numeric attribute '{clause.key}': {clause.value!r}")
    rows = [
        row
        for found in list_registered(call)
        for row in _version_rows(found, asks_prompts)
        if all(
            fits(clause, row["tags"].get(clause.key) if clause.kind == TAG else row[clause.key]) for clause in clauses
        )
    ]
    rows = sorted_rows(rows, _completed(orders, [_BY_NAME, _BY_NUMBER]))[offset : offset + limit + 1]
    shown = [version_json(call, row["asset"], row["found"].about) for row in rows[:limit]]
    return page_of("model_versions", shown, len(rows), offset, limit)


def _version_rows(found: Registered, asks_prompts: bool) -> list[Document]:
    specs = [(asset, from_plain(ModelSpec, asset.document)) for asset in found.versions]
    if not asks_prompts and any(is_prompt(spec) for _, spec in specs):
        return []
    return [_version_row(found, asset, spec) for asset, spec in specs]


def _version_row(found: Registered, asset: Asset, spec: ModelSpec) -> Document:
    return {
        "name": asset.name,
        "version_number": asset.version,
        "run_id": spec.run_id or "",
        "source_path": source_of(asset, spec),
        "creation_timestamp": milliseconds(asset.created_at),
        "last_updated_timestamp": milliseconds(asset.updated_at),
        "tags": spec.tags,
        "asset": asset,
        "found": found,
    }


def _clauses(call: Call, grammar: Grammar) -> tuple[list[Clause], bool]:
    """Return the clauses, without those of prompts unless it is prompts that they ask for."""
    clauses = parse_clauses(call.fields.text("filter", ""), grammar)
    wanted = next((clause for clause in clauses if (clause.kind, clause.key) == (TAG, PROMPT_TAG)), None)
    asks = wanted is not None and (wanted.op, str(wanted.value).lower()) in (("=", "true"), ("!=", "false"))
    return [clause for clause in clauses if asks or (clause.kind, clause.key) != (TAG, PROMPT_TAG)], asks


def _orders(call: Call, grammar: Grammar) -> list[OrderBy]:
    orders = orders_of(call.fields, grammar)
    for order in orders:
        if order.kind != ATTRIBUTE:
            raise MlflowError(f"Invalid order_by entity: {order.kind}")
    if len({order.key for order in orders}) < len(orders):
        raise MlflowError(f"`order_by` contains duplicate fields: {call.fields.texts('order_by')}")
    return orders


def _completed(orders: Sequence[OrderBy], last: Sequence[OrderBy]) -> list[OrderBy]:
    keys = {order.key for order in orders}
    return [*orders, *(order for order in last if order.key not in keys)]
