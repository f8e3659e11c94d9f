"""`/runs/{id}`: everything about one run on one page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from runyard.core.records import MetricInfo, Run, RunFile
from runyard.studio.charts import ChartLine, render_chart
from runyard.studio.html import duration, facts, link, moment, number, page, section, size, status, table, text

__all__ = ["ChartLine", "RunView", "render_run"]

MAX_FILES = 1000
GIT = "azureml.git."


@dataclass(frozen=True)
class RunView:
    """What the page shows."""

    run: Run
    metrics: Sequence[MetricInfo] = ()
    charts: Mapping[str, ChartLine] = field(default_factory=dict)
    files: Sequence[RunFile] = ()
    log_name: str = ""
    log_tail: str = ""


def render_run(view: RunView, *, now: datetime | None = None) -> str:
    run = view.run
    at = now or datetime.now(timezone.utc)
    body = "".join(
        [
            f'<nav><a href="/">All runs</a> · {text(run.workspace)} · {text(run.experiment)}</nav>',
            f"<h1>{text(run.display_name or run.id)} {status(run.status)}</h1>",
            _error(run),
            _warnings(run),
            _summary(run, at),
            section("Metrics", _metrics(view)),
            section(f"Log: {view.log_name}" if view.log_name else "Log", _log(view)),
            section("Files", _files(view)),
            section("Arguments", _arguments(run)),
            section("Tags", _pairs(run.tags)),
            section("Git", _pairs({key: value for key, value in run.properties.items() if _is_git(key)})),
            section("Properties", _pairs({key: value for key, value in run.properties.items() if not _is_git(key)})),
            section("Environment", _environment(run)),
        ]
    )
    return page(f"{run.display_name or run.id} · {run.status} · Runyard", body, refresh=not run.status.is_terminal)


def _error(run: Run) -> str:
    if not run.error:
        return ""
    details = run.error.get("details")
    shown = details.items() if isinstance(details, dict) else ()
    more = "".join(
        f"<h3>{text(key)}</h3><pre>{_value(value)}</pre>" for key, value in shown if value not in (None, "", [])
    )
    code, message = text(run.error.get("code", "")), text(run.error.get("message", ""))
    return f'<div class="error"><p><b>{code}</b></p><pre>{message}</pre>{more}</div>'


def _warnings(run: Run) -> str:
    shown = "".join(f"<p><b>{text(w.get('source', ''))}</b>: {text(w.get('message', ''))}</p>" for w in run.warnings)
    return f'<div class="warning">{shown}</div>' if shown else ""


def _summary(run: Run, now: datetime) -> str:
    parent = link(["runs", run.parent_id], run.parent_id) if run.parent_id else ""
    return facts(
        [
            ("Id", text(run.id)),
            ("Number", text(run.number)),
            ("Parent", parent),
            ("Script", text(run.spec.script or run.spec.command or "")),
            ("Target", text(run.spec.target)),
            ("Waits for", text(run.waits_for)),
            ("Submitted by", text(run.submitted_by)),
            ("Created", moment(run.created_at)),
            ("Description", text(run.description)),
            ("Phases", _phases(run, now)),
            ("Given up", _given_up(run)),
        ]
    )


def _phases(run: Run, now: datetime) -> str:
    parts = []
    for phase, following in zip(run.timeline, [*run.timeline[1:], None]):
        until = following.at if following is not None else now
        took = "" if phase.status.is_terminal else f" {duration(phase.at, until)}"
        parts.append(f"{status(phase.status)}<span class=dim>{took}</span>")
    return " → ".join(parts)


def _given_up(run: Run) -> str:
    return "<br>".join(text(f"attempt {one.number}, {one.code}: {one.why}") for one in run.attempts)


def _metrics(view: RunView) -> str:
    if not view.metrics:
        return ""
    rows = [_metric(info, view.charts.get(info.name)) for info in view.metrics]
    return table(["metric", "last", "min", "max", "points", ""], rows, numbers=(1, 2, 3, 4))


def _metric(info: MetricInfo, line: ChartLine | None) -> list[str]:
    name = info.name if info.kind != "table" else f"{info.name} ({', '.join(info.columns)})"
    last = info.artifact if info.kind == "artifact" else "" if info.kind == "table" else info.last
    chart = render_chart(line) if line is not None else ""
    return [text(name), number(last), number(info.minimum), number(info.maximum), number(info.count), chart]


def _log(view: RunView) -> str:
    return f"<pre>{text(view.log_tail)}</pre>" if view.log_tail else ""


def _files(view: RunView) -> str:
    if not view.files:
        return ""
    rows = [
        [_download(view.run, file), size(file.size) if file.complete else "", moment(file.updated_at)]
        for file in view.files[:MAX_FILES]
    ]
    left = len(view.files) - MAX_FILES
    more = f"<p>{left} more are not shown here.</p>" if left > 0 else ""
    return table(["name", "size", "changed"], rows, numbers=(1,)) + more


def _download(run: Run, file: RunFile) -> str:
    return link(["api", "v1", "runs", run.id, "files", *file.name.split("/")], file.name)


def _arguments(run: Run) -> str:
    return f"<pre>{text(' '.join(run.spec.arguments))}</pre>" if run.spec.arguments else ""


def _pairs(values: Mapping[str, Any]) -> str:
    return facts((key, text("" if value is None else value) or "–") for key, value in sorted(values.items()))


def _environment(run: Run) -> str:
    packages = run.environment.get("packages")
    shown = {key: value for key, value in run.environment.items() if key != "packages"}
    body = facts((key, _value(value)) for key, value in shown.items())
    if isinstance(packages, dict) and packages:
        lines = "\n".join(f"{name}=={version}" for name, version in sorted(packages.items()))
        body += f"<details><summary>{len(packages)} packages</summary><pre>{text(lines)}</pre></details>"
    return body


def _value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return text("\n".join(value))
    return text(value if isinstance(value, (str, int, float)) else json.dumps(value, indent=1, default=str))


def _is_git(key: str) -> bool:
    return key.startswith(GIT) or key.startswith("mlflow.source.git")
