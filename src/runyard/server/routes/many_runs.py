"""Many runs in one answer, for pages that compare them: the runs themselves, and what their metrics came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument, TooLarge
from runyard.core.names import check_metric_name, check_run_id
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import gives, takes
from runyard.server.http.requests import parse, with_json
from runyard.store.base import MetricSummary
from runyard.store.record_limits import record_size

router = APIRouter(tags=["runs"])
MAX_READ = 100
MAX_READ_BYTES = 64 << 20
MAX_SUMMARIZED = 1000
MAX_NAMES = 100


@dataclass(frozen=True)
class SummaryRequest:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    runs: list[str]
    names: Optional[list[str]] = None


Summary = tuple[Any, Optional[float], Optional[float], int]  # the last, least and greatest value, and how many


@dataclass(frozen=True)
class MetricSummaries:
    metrics: dict[str, dict[str, Summary]]  # by metric and run
    left_out: int  # metrics beyond the most of one answer


@router.get("/runs")
def read_runs(request: Request) -> Response:
    """Return the runs with the ids asked for, in that order; `missing` names those that are not there."""
    call = call_of(request)
    ids = _checked(call, request.query_params.getlist("id"), most=MAX_READ)
    runs, missing, size = [], [], 0
    for run_id in ids:
        run = call.services.store.find_run(run_id)
        if run is None:
            missing.append(run_id)
            continue
        runs.append(call.services.engine.explained(run))
        size += record_size(run)
        if size > MAX_READ_BYTES and len(runs) > 1:
            raise TooLarge(
                f"The first {len(runs)} of these {len(ids)} runs have records of {size:,} bytes.",
                why=f"{MAX_READ_BYTES:,} bytes are the most of one answer.",
                hint="Ask for fewer runs at once.",
            )
    return json_answer({"runs": runs, "missing": missing})


@router.post("/metrics/summary")
@gives(MetricSummaries)
@takes(SummaryRequest)
async def summarize_metrics(request: Request) -> Response:
    """Return the last, least and greatest value of scalar metrics of many runs."""
    return await with_json(request, lambda body: _summarize(call_of(request), body))


def _summarize(call: Call, body: bytes) -> Response:
    wanted = parse(SummaryRequest, body)
    ids = _checked(call, wanted.runs, most=MAX_SUMMARIZED)
    names = None if wanted.names is None else [check_metric_name(name) for name in wanted.names]
    if names is not None and len(names) > MAX_NAMES:
        raise InvalidArgument(f"{len(names)} metrics are asked for at once; {MAX_NAMES} is the most.")
    found = call.services.store.summarize_metrics(ids, names=names)
    count = Counter(name for summaries in found.values() for name in summaries)
    kept = [name for name, _ in count.most_common(MAX_NAMES)]
    return json_answer(MetricSummaries({name: _rows(found, name) for name in kept}, left_out=len(count) - len(kept)))


def _rows(found: dict[str, dict[str, MetricSummary]], name: str) -> dict[str, Summary]:
    values = {run_id: summaries.get(name) for run_id, summaries in found.items()}
    return {
        run_id: (one.last, one.minimum, one.maximum, one.count) for run_id, one in values.items() if one is not None
    }


def _checked(call: Call, ids: Sequence[str], *, most: int) -> list[str]:
    """Return the ids once each, when who asks may read all of these runs."""
    wanted = [check_run_id(run_id) for run_id in dict.fromkeys(ids)]
    if not 1 <= len(wanted) <= most:
        raise InvalidArgument(
            f"{len(wanted)} runs are asked for at once.", why=f"It is 1 to {most}.", hint="Name each with its `id`."
        )
    for run_id in wanted:
        call.may("read_run", run_id)
    return wanted
