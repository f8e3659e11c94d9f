"""`runyard sweeps`: which children a sweep made, what they reached, and why some were stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from runyard.cli.commands.sweep_report import report_page
from runyard.cli.known_names import RUN
from runyard.cli.lookup import get_run, newest
from runyard.cli.output import moment, number, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument
from runyard.core.statuses import RunStatus
from runyard.core.sweeps import SWEEP_TYPE
from runyard.sdk.sweeps.run import best_first
from runyard.sdk.workspaces.workspace import Workspace

BAR = 30


@click.group()
def sweeps() -> None:
    """List sweeps and look into them."""


@sweeps.command("list")
@click.option("--limit", default=20, show_default=True, help="How many, newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_sweeps(limit: int, as_json: bool) -> None:
    """List sweeps, newest first."""
    found = newest(Workspace.from_config(), limit, type=SWEEP_TYPE)
    if as_json:
        print_json(found)
    elif found:
        rows = [(run.id, run.experiment, run.status.value, moment(run.created_at)) for run in found]
        print_table(("SWEEP", "EXPERIMENT", "STATUS", "CREATED"), rows)
    else:
        click.echo("There are no sweeps. `experiment.submit(HyperDriveConfig(...))` starts one.", err=True)


@sweeps.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a report that opens offline.")
def show(run_id: str, as_json: bool, html: Path | None) -> None:
    """Show a sweep: its children, the best first, and why each was stopped."""
    workspace = Workspace.from_config()
    run = get_run(workspace, run_id)
    if run.spec.sweep is None:
        raise InvalidArgument(f"Run `{run.id}` is no sweep.", hint="`runyard sweeps list` shows the sweeps.")
    sweep = workspace._client.runs.sweep(run.id)
    if html is not None:
        html.write_text(report_page(sweep, status=run.status.value), encoding="utf-8")
        click.echo(f"The report is in {html}.", err=True)
    if as_json:
        print_json(sweep)
    elif html is None:
        _print_sweep(sweep, run.status)


def _print_sweep(sweep: dict[str, Any], status: RunStatus) -> None:
    spec, children = sweep["spec"], best_first(sweep["children"], sweep["spec"]["goal"])
    ended = sum(1 for child in children if RunStatus(child["status"]).is_terminal)
    total = max(len(children), spec["max_total_runs"]) if sweep["closed"] is None else len(children)
    filled = BAR * ended // max(total, 1)
    click.echo(f"{plain(sweep['run_id'])}  {status.value}")
    click.echo(f"[{'#' * filled}{'.' * (BAR - filled)}] {ended} of {total} ended")
    click.echo(f"{spec['goal'].lower()} {plain(spec['primary_metric'])}, {_policy(spec)}")
    names = list(spec["space"])
    rows = [
        (
            child["run_id"],
            child["status"],
            "" if child["best"] is None else number(child["best"]),
            *(_text(child["parameters"].get(name)) for name in names),
        )
        for child in children
    ]
    if rows:
        click.echo("")
        print_table(("CHILD", "STATUS", "BEST", *(plain(name.lstrip("-")).upper() for name in names)), rows)
    _print_stops(children)
    if sweep["finished"]:
        click.echo(f"\n{plain(sweep['finished']['reason'])}")
    elif sweep["closed"]:
        click.echo(f"\nNo more children: {plain(sweep['closed'])}")


def _print_stops(children: list[dict[str, Any]]) -> None:
    stopped = [child for child in children if child["stopped"]]
    if stopped:
        click.echo("\nStopped early:")
    for child in sorted(stopped, key=lambda child: child["index"]):
        click.echo(f"  {plain(child['run_id'])}: {plain(child['stopped']['reason'])}")


def _policy(spec: dict[str, Any]) -> str:
    if spec["policy"] == "Default":
        return "nothing is stopped early"
    properties = ", ".join(f"{name} {value:g}" for name, value in spec["policy_properties"].items())
    return f"{spec['policy']} ({properties})"


def _text(value: Any) -> str:
    return number(value) if isinstance(value, (int, float, str)) else json.dumps(value)
