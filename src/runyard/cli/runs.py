"""`runyard runs`: list, show, follow and cancel."""

from __future__ import annotations

import difflib

import click

from runyard.cli.exits import exit_code_of
from runyard.cli.following import find_main_log, follow, print_log, wait
from runyard.cli.lazy import LazyGroup
from runyard.cli.report import print_run
from runyard.cli.tables import duration, moment, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import NotFound
from runyard.core.names import check_experiment_name, check_run_id
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.sdk.workspace import Workspace


def _statuses(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[str]:
    known = {status.value.lower(): status.value for status in RunStatus}
    for value in values:
        if value.lower() not in known:
            raise click.BadParameter(f"{value!r} is no status. There are: {', '.join(known.values())}.", ctx, param)
    return [known[value.lower()] for value in values]


@click.group(cls=LazyGroup)
def runs() -> None:
    """List, show, follow and cancel runs. RUN is a run's id, as `runyard runs list` shows it."""


@runs.command("list")
@click.option("--experiment", "-e", metavar="NAME", help="Only runs of this experiment.")
@click.option(
    "--status",
    "-s",
    callback=_statuses,
    metavar="STATUS",
    multiple=True,
    help="Only runs with this status. May be repeated.",
)
@click.option("--tag", "-t", metavar="K[=V]", multiple=True, help="Only runs with this tag. May be repeated.")
@click.option(
    "--limit", "-n", type=click.IntRange(1), metavar="N", default=20, show_default=True, help="At most this many."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_runs(experiment: str | None, status: list[str], tag: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List runs, newest first."""
    workspace = Workspace.from_config()
    if experiment is not None:
        check_experiment_name(experiment)
    found = _newest(workspace, limit, experiment=experiment, status=status, tag=list(tag))
    if as_json:
        print_json(found)
    elif found:
        rows = [(run.id, run.experiment, run.status, moment(run.created_at), duration(run)) for run in found]
        print_table(("RUN", "EXPERIMENT", "STATUS", "CREATED", "DURATION"), rows)
    else:
        asked = " that fit" if experiment or status or tag else " yet"
        click.echo(f"There are no runs{asked}. Submit one: `runyard submit train.py`.", err=True)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(run_id: str, as_json: bool) -> None:
    """Show a run: status, metrics, files, and why it failed."""
    workspace = Workspace.from_config()
    client = workspace._client
    run = _get_run(workspace, run_id)
    metrics, files = client.runs.metrics(run.id), client.runs.files(run.id)
    if as_json:
        print_json({"run": run, "metrics": metrics, "files": files})
    else:
        print_run(run, metrics, files, page=workspace.get_run(run.id).get_portal_url())


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--follow", "-f", "follow_on", is_flag=True, help="Go on until the run has ended; the exit code is the run's."
)
@click.option("--file", "name", metavar="NAME", help="Another file of the run, such as system_logs/supervisor.log.")
@click.pass_context
def logs(ctx: click.Context, run_id: str, follow_on: bool, name: str | None) -> None:
    """Print what a run wrote to stdout and stderr."""
    workspace = Workspace.from_config()
    client = workspace._client
    run = _get_run(workspace, run_id)
    if follow_on:
        ctx.exit(exit_code_of(follow(client, run.id, name).status))
    name = name or find_main_log(client, run.id)
    if name is None:
        click.echo(f"Run `{plain(run.id)}` has written nothing yet (it is {run.status}).", err=True)
        return
    print_log(client, run.id, name)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--wait", "wait_for_it", is_flag=True, help="Return when nothing of the run is left.")
def cancel(run_id: str, wait_for_it: bool) -> None:
    """Cancel a run: its processes get TERM, and KILL after 30 s. Twice does no harm."""
    workspace = Workspace.from_config()
    client = workspace._client
    before = _get_run(workspace, run_id)
    if before.status.is_terminal:
        click.echo(f"Run `{plain(before.id)}` has ended already: {before.status}.", err=True)
        return
    run = client.runs.cancel(before.id)
    if wait_for_it:
        run = wait(client, run.id)
    click.echo(f"Run `{plain(run.id)}`: {run.status}.", err=True)


def _newest(workspace: Workspace, limit: int, **query: object) -> list[Run]:
    found: list[Run] = []
    for run in workspace._client.runs.iter(workspace.name, limit=min(limit, 200), **query):
        found.append(run)
        if len(found) == limit:
            break
    return found


def _get_run(workspace: Workspace, run_id: str) -> Run:
    client = workspace._client
    try:
        return client.runs.get(check_run_id(run_id))
    except NotFound as error:
        known = [run.id for run in _newest(workspace, 200)]
        near = [known_id for known_id in known if run_id in known_id] or difflib.get_close_matches(run_id, known, n=3)
        hint = f"Did you mean {' or '.join(f'`{name}`' for name in near[:3])}?" if near else ""
        raise NotFound(
            f"There is no run `{run_id}`.",
            why=f"The server at {client.address.web_url or client.address} does not know it.",
            hint=hint or "`runyard runs list` shows the runs there are.",
        ) from error
