"""`runyard runs metrics`: all metrics of a run, or the points of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import click

from runyard.cli.known_names import RUN
from runyard.cli.lookup import get_run
from runyard.cli.output import moment, number, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import NotFound
from runyard.core.names import SYSTEM_METRICS, is_system_metric
from runyard.core.records import MetricInfo
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace


@click.command()
@RUN
@click.argument("name", required=False)
@click.option("--system", is_flag=True, help="CPU, memory, disk, network and GPUs of the run's machine instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def metrics(run_id: str, name: str | None, system: bool, as_json: bool) -> None:
    """List a run's metrics, or every point of the metric NAME."""
    workspace = Workspace.from_config()
    client = workspace._client
    run = get_run(workspace, run_id)
    if name is not None and system and not is_system_metric(name):
        name = SYSTEM_METRICS + name
    known = client.runs.metrics(run.id, system=system or is_system_metric(name or ""))
    if name is not None:
        _print_points(_find(known, run.id, name), _columns(client, run.id, _find(known, run.id, name)), as_json)
    elif as_json:
        print_json(known)
    elif known:
        print_table(("METRIC", "KIND", "COUNT", "LAST", "MIN", "MAX"), [_summary(metric) for metric in known])
    else:
        nothing = "was too short to be measured, or RUNYARD_SAMPLE_EVERY is 0" if system else "has logged no metrics"
        click.echo(f"Run `{plain(run.id)}` {nothing}.", err=True)


def _find(known: Sequence[MetricInfo], run_id: str, name: str) -> MetricInfo:
    for metric in known:
        if metric.name == name:
            return metric
    names = ", ".join(metric.name for metric in known[:20])
    raise NotFound(
        f"Run `{run_id}` has no metric `{name}`.", hint=f"Its metrics: {names}." if names else "It has none."
    )


def _columns(client: Client, run_id: str, metric: MetricInfo) -> dict[str, list[Any]]:
    """Return the columns of a metric, each with a value per point."""
    if metric.kind == "scalar":
        series = client.runs.metric_series(run_id, metric.name)
        times = [datetime.fromtimestamp(at / 1e9, tz=timezone.utc) for at in series.times]
        return {"step": list(series.steps), "time": times, "value": list(series.values)}
    found = client.runs.metric_values(run_id, metric.name)
    if metric.kind == "artifact":
        return {"file": [series.file for series in found]}
    rank = min((series.rank for series in found), default=0)
    return {series.column: list(series.values) for series in found if series.rank == rank}


def _print_points(metric: MetricInfo, columns: dict[str, list[Any]], as_json: bool) -> None:
    if as_json:
        print_json({"name": metric.name, "kind": metric.kind, "columns": columns})
        return
    rows = zip(*columns.values(), strict=True)
    print_table([plain(title).upper() for title in columns], [[_cell(value) for value in row] for row in rows])


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return "" if value is None else number(value)


def _summary(metric: MetricInfo) -> tuple[object, ...]:
    last = metric.artifact if metric.kind == "artifact" else metric.last
    return metric.name, metric.kind, metric.count, *(_cell(value) for value in (last, metric.minimum, metric.maximum))
