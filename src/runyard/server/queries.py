"""The query of a list of runs, out of the address."""

from __future__ import annotations

import math
import re

from starlette.datastructures import QueryParams

from runyard.core.errors import InvalidArgument
from runyard.core.filters import Filter, parse_filter
from runyard.core.names import check_experiment_name, check_metric_name, check_run_id
from runyard.core.statuses import RunStatus
from runyard.store.base import MetricCondition, RunQuery

MAX_LIMIT = 1000
_CONDITION = re.compile(r"([^<>=!]+)(<=|>=|!=|==|=|<|>)\s*(\S+)\s*")
_KNOWN = {
    "experiment", "status", "type", "parent", "include_children", "tag", "property", "parameter", "metric", "filter",
    "order", "descending", "limit", "cursor",
}  # fmt: skip


def run_query(workspace: str, params: QueryParams) -> RunQuery:
    """Return what the address asks for.

    Raises:
        InvalidArgument: a parameter is misspelt or cannot be read; says which and what it may be.
    """
    unknown = sorted(set(params.keys()) - _KNOWN)
    if unknown:
        raise InvalidArgument(
            f"There is no parameter {unknown[0][:40]!r} in a list of runs.", hint=f"Known: {', '.join(sorted(_KNOWN))}."
        )
    experiment, parent = _text(params, "experiment"), _text(params, "parent")
    return RunQuery(
        workspace=workspace,
        experiment=None if experiment is None else check_experiment_name(experiment),
        statuses=[_status(value) for value in _texts(params, "status")],
        type=_text(params, "type"),
        parent_id=None if parent is None else check_run_id(parent),
        include_children=_flag(params, "include_children", default=False),
        tags=dict(_pair(value) for value in _texts(params, "tag")),
        properties=dict(_pair(value) for value in _texts(params, "property")),
        parameters=dict(_pair(value) for value in _texts(params, "parameter")),
        metrics=[_condition(value) for value in _texts(params, "metric")],
        where=_filter(params),
        order=_order(params),
        descending=_flag(params, "descending", default=True),
        limit=_limit(params),
        cursor=_text(params, "cursor"),
    )


def _texts(params: QueryParams, key: str) -> list[str]:
    values = [value for value in params.getlist(key) if value]
    if any("\0" in value for value in values):
        raise InvalidArgument(f"The parameter `{key}` holds NUL.")
    return values


def _text(params: QueryParams, key: str) -> str | None:
    values = _texts(params, key)
    return values[-1] if values else None


def _flag(params: QueryParams, key: str, *, default: bool) -> bool:
    value = _text(params, key)
    if value is None:
        return default
    if value.lower() not in ("true", "false", "1", "0"):
        raise InvalidArgument(f"The parameter `{key}` holds {value[:40]!r}; it is true or false.")
    return value.lower() in ("true", "1")


def _status(value: str) -> RunStatus:
    try:
        return RunStatus(value)
    except ValueError:
        known = ", ".join(status.value for status in RunStatus)
        raise InvalidArgument(f"There is no status {value[:40]!r}.", hint=f"Known: {known}.") from None


def _pair(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return key, value if equals else None


def _condition(text: str) -> MetricCondition:
    match = _CONDITION.fullmatch(text)
    value = _number(match.group(3)) if match else math.nan
    if match is None or math.isnan(value):
        raise InvalidArgument(
            f"The condition {text[:80]!r} cannot be read.", hint="Write a metric, a comparison and a number: loss<0.1"
        )
    op = "=" if match.group(2) == "==" else match.group(2)
    return MetricCondition(check_metric_name(match.group(1).strip()), op, value)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _filter(params: QueryParams) -> Filter | None:
    text = _text(params, "filter")
    return None if text is None else parse_filter(text)


def _order(params: QueryParams) -> str:
    order = _text(params, "order") or "created"
    if order == "created":
        return order
    if not order.startswith("metrics."):
        raise InvalidArgument(f"Runs cannot be ordered by {order[:80]!r}.", hint="Known: created, metrics.<name>.")
    return f"metrics.{check_metric_name(order[len('metrics.') :])}"


def _limit(params: QueryParams) -> int:
    text = _text(params, "limit") or "100"
    if not (text.isascii() and text.isdigit() and len(text) < 10) or not 1 <= int(text) <= MAX_LIMIT:
        raise InvalidArgument(f"The parameter `limit` holds {text[:40]!r}; it is 1 to {MAX_LIMIT}.")
    return int(text)
