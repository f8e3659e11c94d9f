"""Requests of routes: bodies, and the query of a list of runs.

A body is read once, never beyond a limit, and checked into a dataclass. JSON can hold more than a store can keep: a key
twice, NaN, 1e400, NUL, half a surrogate pair. A user's request with such a value is refused with its name; a
supervisor's report is taken with the text made printable.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.requests import Request

from runyard.core.errors import InvalidArgument, ProtocolError, TooLarge
from runyard.core.formats.filters import Field, Filter, parse_field, parse_filter
from runyard.core.formats.frames import Frame, iter_frames
from runyard.core.names import check_experiment_name, check_metric_name, check_run_id
from runyard.core.statuses import RunStatus
from runyard.engine.sanitize import storable_value
from runyard.server.http.openapi import QueryParameter
from runyard.store.base import MetricCondition, RunQuery
from runyard.store.rules import VIEWS, no_view

T = TypeVar("T")
JSON_LIMIT = 16 << 20
FRAMES_LIMIT = 64 << 20
MAX_DEPTH = 100
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
MAX_LIMIT = 1000
MAX_CONDITIONS = 100
_CONDITION = re.compile(r"([^<>=!]+)(<=|>=|!=|==|=|<|>)\s*(\S+)\s*")
_ORDER = QueryParameter("order", "string", "The field to sort by: `created`, `name`, `metrics.loss`.")
OF_RUNS = (
    QueryParameter("experiment", "string", "The experiment's name."),
    QueryParameter("status", "string", "A status. May be repeated: one of them.", repeated=True),
    QueryParameter("type", "string", "The type of run."),
    QueryParameter("parent", "string", "The id of the parent: its child runs."),
    QueryParameter("include_children", "boolean", "Child runs, too."),
    QueryParameter("tag", "string", "`key` or `key=value`. May be repeated: all of them.", repeated=True),
    QueryParameter("property", "string", "`key` or `key=value`. May be repeated: all of them.", repeated=True),
    QueryParameter("parameter", "string", "`key` or `key=value`. May be repeated: all of them.", repeated=True),
    QueryParameter("metric", "string", "A condition such as `loss<0.1`. May be repeated: all of them.", repeated=True),
    QueryParameter("filter", "string", "A filter such as `metrics.loss < 0.1 and params.lr = 0.1`."),
    QueryParameter("view", "string", f"{', '.join(f'`{view}`' for view in VIEWS)}."),
    _ORDER,
    QueryParameter("descending", "boolean", "The greatest first; true by default."),
    QueryParameter("limit", "integer", "The most runs of one answer; 100 by default."),
    QueryParameter("cursor", "string", "Where to continue: `next` of the page before."),
)
OF_RUNS_SORTED = tuple(replace(one, name="sort") if one is _ORDER else one for one in OF_RUNS)
OFFSET = QueryParameter("offset", "integer", "The number of rows to skip.")
COLUMN = QueryParameter("column", "string", "A field whose values are asked for. May be repeated.", repeated=True)
BY = QueryParameter("by", "string", "The field to group by, such as `status` or `params.lr`.")
_KNOWN = {one.name for one in OF_RUNS}


class _AssetName(Convertor[str]):
    """`{name:asset}` in a route: a name that clients quote twice, so that a `/` in it is not one of the path."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value)

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("asset", _AssetName())


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        TooLarge: it has more than `limit` bytes; no more than that was read.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def with_json(request: Request, work: Callable[[bytes], T], *, limit: int = JSON_LIMIT) -> T:
    """Read the body here and do the rest in a thread."""
    return await run_in_threadpool(work, await read_body(request, limit))


def parse(cls: type[T], body: bytes, *, unchecked: Iterable[str] = (), lenient: bool = False) -> T:
    """Return the body as a `cls`.

    Args:
        unchecked: top-level keys whose text may be anything: the submitter's variables are bytes of a foreign process.
        lenient: make unstorable text printable instead of refusing it.

    Raises:
        InvalidArgument: the body is no such JSON; says where and why, never what was sent.
    """
    loaded = _load(body)
    if lenient:
        loaded = storable_value(loaded)
    elif b"\\u" in body:
        _check_text({key: value for key, value in loaded.items() if key not in unchecked})
    try:
        return _adapter(cls).validate_python(loaded)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise InvalidArgument(
            "The request's body cannot be used.", why="; ".join(_fault(item) for item in faults[:3])
        ) from None


def parse_frames(body: bytes) -> list[Frame]:
    try:
        return list(iter_frames(body))
    except RecursionError:
        raise ProtocolError("A frame's head is nested too deeply.") from None


def _adapter(cls: type[T]) -> TypeAdapter[T]:
    # Made at first use: building all of them would cost every start of the server.
    found = _ADAPTERS.get(cls)
    if found is None:
        found = _ADAPTERS[cls] = TypeAdapter(cls)
    return found


def _load(body: bytes) -> dict[str, Any]:
    try:
        loaded = json.loads(
            body.decode("utf-8"), object_pairs_hook=_without_twins, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError:
        raise InvalidArgument("The request's body is not UTF-8.") from None
    except RecursionError:
        raise InvalidArgument("The request's JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise InvalidArgument("The request's body is not JSON.", why=f"{error.msg} at character {error.pos}.") from None
    except InvalidArgument:
        raise
    except ValueError:
        raise InvalidArgument("The request's JSON holds a number with too many digits.") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(loaded)
    if not isinstance(loaded, dict):
        raise InvalidArgument(f"The request's body is a JSON {type(loaded).__name__}; an object is due.")
    return loaded


def _check_depth(loaded: Any) -> None:
    """Raise InvalidArgument for JSON that is nested too deeply: a walk through it calls itself at each level."""
    level, depth = [loaded], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidArgument(f"The request's JSON is nested too deeply: {MAX_DEPTH} levels are the most.")
        nested = (item for item in level if isinstance(item, (dict, list)))
        level = [value for item in nested for value in (item.values() if isinstance(item, dict) else item)]


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidArgument("The request's JSON has a key twice in one object.")
    return found


def _no_constant(text: str) -> float:
    raise InvalidArgument(f"The request's JSON holds {text}, which is no JSON number.")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidArgument("The request's JSON holds a number beyond the range of a 64-bit float.")
    return value


def _check_text(loaded: Any) -> None:
    waiting = [loaded]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if _UNSTORABLE.search(item):
                raise InvalidArgument(
                    "A text in the request holds NUL or half a surrogate pair, which cannot be stored."
                )
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item


def _fault(item: Any) -> str:
    place = ".".join(str(part)[:80] for part in item["loc"]) or "body"
    return f"`{place}`: {item['msg']}"


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The request's body has more than {limit >> 20} MiB.",
        why="That is the most this address takes at once.",
        hint="Send it in several requests.",
    )


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
