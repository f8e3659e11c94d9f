"""`/`: the newest runs of all experiments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from runyard.core.records import Run
from runyard.studio.html import duration, link, moment, page, status, table, text


def render_runs(runs: Sequence[Run], *, now: datetime | None = None) -> str:
    at = now or datetime.now(timezone.utc)
    body = "<h1>Runs</h1>"
    if runs:
        rows = [_row(run, at) for run in runs]
        body += table(["run", "experiment", "status", "created", "took", "arguments"], rows)
    else:
        body += "<p>No run yet. Start one: <code>runyard submit train.py</code></p>"
    return page("Runs · Runyard", body, refresh=any(not run.status.is_terminal for run in runs))


def _row(run: Run, now: datetime) -> list[str]:
    took = duration(run.started_at, run.ended_at or now) if run.started_at else ""
    return [
        link(["runs", run.id], run.display_name or run.id),
        text(run.experiment),
        status(run.status),
        moment(run.created_at),
        took,
        text(" ".join(run.spec.arguments)[:200]),
    ]
