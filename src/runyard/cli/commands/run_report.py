"""What `runyard runs show` says about a run, and the short form at the end of a submit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from runyard.cli.commands.diagnosis_report import failure_report
from runyard.cli.output import duration, moment, number, print_fields, size
from runyard.cli.text import plain
from runyard.core.records import MetricInfo, Run, RunFile
from runyard.core.statuses import RunStatus
from runyard.sdk.runs.run_details import attempts_of


def print_run(run: Run, metrics: Sequence[MetricInfo], files: Sequence[RunFile], *, page: str) -> None:
    print_fields(
        [
            ("run", run.id),
            ("experiment", f"{run.experiment} #{run.number}"),
            ("status", run.status),
            ("waits for", run.waits_for if not run.status.is_terminal else ""),
            ("created", moment(run.created_at)),
            ("started", moment(run.started_at)),
            ("ended", moment(run.ended_at)),
            ("submitted by", run.submitted_by),
            ("duration", duration(run)),
            ("target", run.spec.target),
            ("nodes", str(run.spec.distribution.node_count) if run.spec.distribution.node_count > 1 else ""),
            ("command", command_of(run)),
            ("environment", _environment_text(run)),
            ("python", run.environment.get("interpreter") or run.spec.environment.interpreter),
            ("tags", ", ".join(key if value is None else f"{key}={value}" for key, value in run.tags.items())),
            ("parent", run.parent_id),
            ("page", page),
        ]
    )
    _print_section("attempts", [(str(one["attempt"]), _attempt_text(one)) for one in attempts_of(run)])
    _print_section("metrics", [(metric.name, _metric_text(metric)) for metric in metrics])
    _print_section("files", [(file.name, size(file.size)) for file in files])
    _print_section("warnings", [(str(item.get("source", "")), str(item.get("message", ""))) for item in run.warnings])
    if run.error:
        click.echo(f"\nerror: {failure_report(run, with_log=True)}")


def print_end(run: Run, metrics: Sequence[MetricInfo], files: Sequence[RunFile]) -> None:
    """Say on stderr how a run ended and what it left."""
    lasted = duration(run)
    click.echo(f"\nRun {plain(run.id)}: {run.status}{f' after {lasted}' if lasted else ''}.", err=True)
    shown = [f"{plain(metric.name)} {plain(number(metric.last))}" for metric in metrics if metric.kind == "scalar"]
    kept = [plain(file.name) for file in files if file.name.startswith("outputs/")]
    for title, items in (("metrics", shown), ("files", kept)):
        if items:
            more = f" and {len(items) - 6} more" if len(items) > 6 else ""
            click.echo(f"{title}: {', '.join(items[:6])}{more}", err=True)
    if run.status is not RunStatus.COMPLETED and run.error:
        # Its last lines have just been streamed.
        click.echo(f"error: {failure_report(run, with_log=False)}", err=True)
    click.echo(f"more: runyard runs show {plain(run.id)}", err=True)


def command_of(run: Run) -> str:
    if run.spec.command:
        return run.spec.command
    return " ".join(filter(None, [run.spec.script, *run.spec.arguments]))


def _environment_text(run: Run) -> str:
    """Return name and version of the environment that the run named; the default one goes without saying."""
    spec = run.spec.environment
    if spec.kind == "system" and spec.version is None:
        return ""
    return f"{spec.name}, version {spec.version}" if spec.version else spec.name


def _attempt_text(one: Mapping[str, Any]) -> str:
    """Return how an attempt went: `NodeLost on n7: …`, `Running`."""
    where = f" on {one['host']}" if one.get("host") else ""
    why = f": {one['why']}" if one.get("why") else ""
    return f"{one['status']}{where}{why}"


def _metric_text(metric: MetricInfo) -> str:
    if metric.kind == "artifact":
        return str(metric.artifact or "")
    if metric.kind == "table":
        return f"{metric.count} row(s) of {', '.join(metric.columns)}"
    text = number(metric.last)
    if metric.count > 1:
        text += f"  (last of {metric.count}"
        if metric.minimum is not None and metric.maximum is not None:
            text += f", from {number(metric.minimum)} to {number(metric.maximum)}"
        text += ")"
    return text


def _print_section(title: str, rows: Sequence[tuple[str, str]]) -> None:
    if not rows:
        return
    click.echo(f"\n{title}")
    width = min(max(len(plain(name)) for name, _ in rows), 60)
    for name, text in rows:
        click.echo(f"  {plain(name).ljust(width)}  {plain(text)}".rstrip())
