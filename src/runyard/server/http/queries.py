"""The query of a list of runs, out of the address."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from starlette.datastructures import QueryParams

from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import Field, Filter, parse_field, parse_filter
from runyard.core.names import check_experiment_name, check_metric_name, check_run_id
from runyard.core.statuses import RunStatus
from runyard.store.base import MetricCondition, RunQuery
from runyard.store.rules import VIEWS, no_view

MAX_LIMIT = 1000
MAX_CONDITIONS = 100
_CONDITION = re.compile(r"([^<>=!]+)(<=|>=|!=|==|=|<|>)\s*(\S+)\s*")
_KNOWN = {
    "experiment", "status", "type", "parent", "include_children", "tag", "property", "parameter", "metric", "filter",
    "view", "order", "descending", "limit", "cursor",
}  # fmt: skip


def run_query(
    workspace: str, params: QueryParams, *, also: Collection[str] = (), most: int = MAX_LIMIT, order: str = "order"
) -> RunQuery:
    """Return what the address asks for. `also`: parameters that the caller reads; `order`: what the order is called.

    Raises:
        InvalidArgument: a parameter is misspelt or cannot be read; says which and what it may be.
    """
    known = {*_KNOWN, *also}
    unknown = sorted(set(params.keys()) - known)
    if unknown:
        raise InvalidArgument(
            f"There is no parameter {unknown[0][:40]!r} in a list of runs.", hint=f"Known: {', '.join(sorted(known))}."
        )
    conditions = sum(len(_texts(params, key)) for key in ("status", "tag", "property", "parameter", "metric"))
    if conditions > MAX_CONDITIONS:
        raise InvalidArgument(f"A list of runs has {conditions} conditions; {MAX_CONDITIONS} are the most.")
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
        view=_view(params),
        order=_order(params, order),
        descending=_flag(params, "descending", default=True),
        limit=_limit(params, most),
        cursor=_text(params, "cursor"),
    )


def offset_of(params: QueryParams) -> int:
    text = _text(params, "offset") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidArgument(f"The parameter `offset` holds {text[:40]!r}; it is a number from 0 on.")
    return int(text)


def fields_of(params: QueryParams, key: str, *, most: int) -> list[Field]:
    """Return the fields that a parameter names, which may be repeated."""
    found = [parse_field(text) for text in _texts(params, key)]
    if len(found) > most:
        raise InvalidArgument(f"The parameter `{key}` is given {len(found)} times; {most} is the most.")
    return found


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


def _view(params: QueryParams) -> str:
    view = _text(params, "view") or "active"
    if view not in VIEWS:
        raise no_view(view)
    return view


def _order(params: QueryParams, key: str) -> str:
    field = parse_field(_text(params, key) or "created")
    if field.name == "metrics":
        check_metric_name(field.key)
    return field.title


def _limit(params: QueryParams, most: int) -> int:
    text = _text(params, "limit") or "100"
    if not (text.isascii() and text.isdigit() and len(text) < 10) or not 1 <= int(text) <= most:
        raise InvalidArgument(f"The parameter `limit` holds {text[:40]!r}; it is 1 to {most}.")
    return int(text)
