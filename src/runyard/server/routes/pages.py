"""The pages for people: all runs, one run. Server-rendered, without script."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from runyard.core.errors import RunyardError
from runyard.core.names import check_run_id, is_system_metric
from runyard.core.records import MetricInfo, Run, RunFile
from runyard.engine.streams import key_of
from runyard.server.calls import Call, call_of
from runyard.store.base import RunQuery
from runyard.studio.front_page import render_runs
from runyard.studio.run_page import ChartLine, RunView, render_run
from runyard.studio.style import STYLE

router = APIRouter(include_in_schema=False)
NEWEST = 100
TAIL_BYTES = 16 << 10
CHART_WIDTH = 240
MAX_CHARTS = 50
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@router.get("/")
def front_page(request: Request) -> Response:
    call = call_of(request)
    call.may("list_runs")
    store = call.services.store
    runs: list[Run] = []
    for workspace in store.list_workspaces():
        runs += store.list_runs(RunQuery(workspace=workspace.name, limit=NEWEST)).runs
    runs.sort(key=lambda run: run.created_at, reverse=True)
    return _page(render_runs(runs[:NEWEST]))


@router.get("/runs/{run_id}")
def run_page(run_id: str, request: Request) -> Response:
    call = call_of(request)
    run = call.services.engine.explained(call.readable_run(check_run_id(run_id)))
    files = call.services.store.list_files(run_id)
    log_name, log_tail = _log_tail(call, run, files)
    view = RunView(
        run=run,
        metrics=_metrics(call, run_id),
        charts=_charts(call, run),
        files=files,
        log_name=log_name,
        log_tail=log_tail,
    )
    return _page(render_run(view))


@router.get("/style.css")
async def style() -> Response:
    return Response(STYLE, media_type="text/css", headers={**HEADERS, "Cache-Control": "max-age=3600"})


def _page(html: str) -> Response:
    return Response(html.encode("utf-8", "replace"), media_type="text/html; charset=utf-8", headers=HEADERS)


def _metrics(call: Call, run_id: str) -> list[MetricInfo]:
    """Return what was logged, then what the machine did."""
    return sorted(call.services.store.list_metrics(run_id), key=lambda info: is_system_metric(info.name))


def _charts(call: Call, run: Run) -> dict[str, ChartLine]:
    found: dict[str, ChartLine] = {}
    for info in _metrics(call, run.id)[:MAX_CHARTS]:
        if info.kind == "scalar" and info.count > 1 and info.minimum is not None:
            line = _chart(call, run, info.name)
            if line is not None:
                found[info.name] = line
    return found


def _chart(call: Call, run: Run, metric: str) -> ChartLine | None:
    try:
        chart = call.services.store.chart(run.id, metric, width=CHART_WIDTH)
    except RunyardError:
        return None  # text among the numbers: there is no line to draw
    return ChartLine(steps=_floats(chart.first_step), least=_floats(chart.minimum), greatest=_floats(chart.maximum))


def _floats(values: Any) -> list[float]:
    return [float(value) for value in values.tolist()]


def _log_tail(call: Call, run: Run, files: list[RunFile]) -> tuple[str, str]:
    logs = [file for file in files if file.kind == "stream" and file.name.startswith("user_logs/")]
    if not logs:
        return "", ""
    key = key_of(run, logs[0])
    size = call.services.artifacts.stream_size(key)
    start = max(0, size - TAIL_BYTES)
    text = call.services.artifacts.read_stream(key, offset=start, length=TAIL_BYTES).decode("utf-8", "replace")
    return logs[0].name, text.partition("\n")[2] if start and "\n" in text else text
